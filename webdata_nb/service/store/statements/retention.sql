-- name: active_ids
-- Whose files on their way into the store are not to go.
SELECT id FROM job WHERE state IN ('pending', 'running');

-- name: due_results
-- Ended jobs whose rows are past their retention, or were marked so before a restart.
SELECT * FROM job
WHERE state IN ('completed', 'failed', 'cancelled') AND cleared_at IS NULL
  AND (expired_at IS NOT NULL
    OR (kind = 'search' AND finished_at <= :searches_before)
    OR (kind = 'crawl' AND finished_at <= :crawls_before))
ORDER BY finished_at, id LIMIT :limit;

-- name: expire
UPDATE job SET expired_at = :now WHERE id = :id AND expired_at IS NULL;

-- name: clear_entries
-- A slice at a time, so that no transaction holds up the jobs that run.
DELETE FROM entry WHERE job_id = :id AND ordinal IN (
  SELECT ordinal FROM entry WHERE job_id = :id ORDER BY ordinal LIMIT :limit
);

-- name: clear_receipt
DELETE FROM receipt WHERE job_id = :id AND url IN (
  SELECT url FROM receipt WHERE job_id = :id ORDER BY url LIMIT :limit
);

-- name: clear_snapshots
DELETE FROM snapshot WHERE job_id = :id AND name IN (
  SELECT name FROM snapshot WHERE job_id = :id ORDER BY name LIMIT :limit
);

-- name: cleared
UPDATE job SET cleared_at = :now WHERE id = :id;

-- name: old_jobs
-- Jobs without rows whose record, too, is past its time.
SELECT id FROM job
WHERE state IN ('completed', 'failed', 'cancelled') AND cleared_at IS NOT NULL
  AND finished_at <= :before
ORDER BY finished_at, id LIMIT :limit;

-- name: delete_job
-- What belongs to the job goes with it: deliveries, secrets.
DELETE FROM job WHERE id = :id;

-- name: forget_keys
DELETE FROM idempotency WHERE (account_id, key) IN (
  SELECT account_id, key FROM idempotency WHERE created_at <= :before
  ORDER BY created_at LIMIT :limit
);
