-- name: active_job_ids
-- Jobs whose spooled files are still needed.
SELECT id FROM job WHERE state IN ('pending', 'running');

-- name: due_jobs
-- Ended jobs whose rows are past their retention, or were marked before a restart.
SELECT * FROM job
WHERE state IN ('completed', 'failed', 'cancelled') AND cleared_at IS NULL
  AND (expired_at IS NOT NULL
    OR (kind = 'search' AND finished_at <= :searches_before)
    OR (kind = 'crawl' AND finished_at <= :crawls_before))
ORDER BY finished_at, id LIMIT :limit;

-- name: deleted_jobs
-- Jobs that their accounts have deleted.
SELECT id FROM job WHERE account_id IS NULL ORDER BY id LIMIT :limit;

-- name: jobs_of_account
SELECT id FROM job WHERE account_id = :account_id ORDER BY created_at, id LIMIT :limit;

-- name: forget_account_starts
DELETE FROM idempotency WHERE account_id = :account_id AND key IN (
  SELECT key FROM idempotency WHERE account_id = :account_id LIMIT :limit
);

-- name: mark_expired
UPDATE job SET expired_at = :now WHERE id = :id AND expired_at IS NULL;

-- name: delete_entries
-- A slice in each transaction, so that running jobs do not wait.
DELETE FROM entry WHERE job_id = :id AND ordinal IN (
  SELECT ordinal FROM entry WHERE job_id = :id ORDER BY ordinal LIMIT :limit
)
RETURNING content_id;

-- name: delete_receipt
DELETE FROM receipt WHERE job_id = :id AND url IN (
  SELECT url FROM receipt WHERE job_id = :id ORDER BY url LIMIT :limit
);

-- name: delete_receipt_blocks
DELETE FROM receipt_block WHERE job_id = :id AND number IN (
  SELECT number FROM receipt_block WHERE job_id = :id ORDER BY number LIMIT :limit
);

-- name: delete_pinned_files
DELETE FROM snapshot WHERE job_id = :id AND name IN (
  SELECT name FROM snapshot WHERE job_id = :id ORDER BY name LIMIT :limit
);

-- name: mark_cleared
UPDATE job SET cleared_at = :now WHERE id = :id;

-- name: old_jobs
-- Jobs without rows whose record is past its retention.
SELECT id FROM job
WHERE state IN ('completed', 'failed', 'cancelled') AND cleared_at IS NOT NULL
  AND finished_at <= :before
ORDER BY finished_at, id LIMIT :limit;

-- name: delete_deliveries
DELETE FROM delivery WHERE id IN (SELECT id FROM delivery WHERE job_id = :id LIMIT :limit);

-- name: delete_job
-- Deletes the job's secrets as well, and by cascade its counts and the state of its crawl.
DELETE FROM job WHERE id = :id;

-- name: delete_idempotency_keys
DELETE FROM idempotency WHERE (account_id, key) IN (
  SELECT account_id, key FROM idempotency WHERE created_at <= :before
  ORDER BY created_at LIMIT :limit
);
