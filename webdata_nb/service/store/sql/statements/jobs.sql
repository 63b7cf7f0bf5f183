-- name: add_job
-- A job is durable before its start is answered.
INSERT INTO job (
  id, account_id, key_id, kind, state, subject, request, sealed, created_at, reserved,
  unlimited
) VALUES (
  :id, :account_id, :key_id, :kind, 'pending', :subject, :request, :sealed, :now, :reserved,
  :unlimited
);

-- name: idempotent
-- The job that an earlier request started with this key, within its day.
SELECT fingerprint, job_id FROM idempotency
WHERE account_id = :account_id AND key = :key AND created_at > :since;

-- name: remember_key
-- A key older than its day may be used again.
INSERT INTO idempotency (account_id, key, fingerprint, job_id, created_at)
VALUES (:account_id, :key, :fingerprint, :job_id, :now)
ON CONFLICT (account_id, key) DO UPDATE
SET fingerprint = excluded.fingerprint, job_id = excluded.job_id, created_at = excluded.created_at;

-- name: job
-- Loads a job for a caller: the account must match.
SELECT * FROM job WHERE id = :id AND account_id = :account_id;

-- name: jobs
-- An account's jobs, newest first, older than the cursor, of a kind or of both.
SELECT * FROM job
WHERE account_id = :account_id AND (created_at, id) < (:before, :before_id)
  AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: claim
-- Claims jobs that are pending, whose lease ran out, or that this worker holds and does not run:
-- `:held_jobs` has the ids of those that it runs. The attempt fences writes. Jobs of suspended
-- accounts wait. Of the jobs with `:suspect`
-- attempts without progress only one runs at a time, the oldest first: a job that crashes the service
-- does not use up the attempts of the others.
-- Accounts take turns: an account's first job comes before any account's second, running ones
-- included, and within a turn the older job goes first. `:spare_jobs` places are for first jobs alone.
WITH queue AS (
  SELECT id, account_id, COALESCE(queued_at, created_at) AS created_at, attempts_since_progress,
    (state = 'pending' OR lease_until < :now OR worker = :worker)
      AND :held_jobs NOT LIKE '%' || id || '%' AS is_free
  FROM job WHERE state IN ('pending', 'running')
    AND account_id NOT IN (SELECT id FROM account WHERE suspended_at IS NOT NULL)
), busy AS (
  SELECT account_id, COUNT(*) AS jobs FROM queue WHERE NOT is_free GROUP BY account_id
), free AS (
  SELECT id, account_id, created_at FROM queue AS each
  WHERE is_free AND (
    attempts_since_progress < :suspect
    OR NOT EXISTS (
      SELECT 1 FROM queue AS other
      WHERE other.id <> each.id AND other.attempts_since_progress >= :suspect
        AND (
          (other.created_at, other.id) < (each.created_at, each.id)
          OR :held_jobs LIKE '%' || other.id || '%'
        )
    )
  )
), turns AS (
  SELECT free.id, free.created_at, COALESCE(busy.jobs, 0)
    + ROW_NUMBER() OVER (PARTITION BY free.account_id ORDER BY free.created_at, free.id) AS turn
  FROM free LEFT JOIN busy ON busy.account_id = free.account_id
), places AS (
  SELECT id, turn, ROW_NUMBER() OVER (ORDER BY turn, created_at, id) AS place FROM turns
)
UPDATE job SET state = 'running', worker = :worker, attempt = attempt + 1,
  attempts_since_progress = attempts_since_progress + 1,
  lease_until = :now + :lease_s, started_at = COALESCE(started_at, :now)
WHERE id IN (
  SELECT id FROM places WHERE place <= :max_jobs OR (turn = 1 AND place <= :max_jobs + :spare_jobs)
)
-- Another transaction may have cancelled a job or renewed its lease since the queue was read.
-- on postgresql: AND (state = 'pending' OR (state = 'running' AND (lease_until < :now OR worker = :worker)))
RETURNING *;

-- name: release
-- Returns a worker's jobs to the queue, except those that it runs. For a worker that stops, or that
-- does not know whether its claim was written; the attempt does not count. Without its name, no
-- later write of the worker succeeds.
UPDATE job SET worker = NULL, lease_until = 0,
  attempts_since_progress = CASE WHEN attempts_since_progress > 0
    THEN attempts_since_progress - 1 ELSE 0 END
WHERE worker = :worker AND state = 'running' AND :held_jobs NOT LIKE '%' || id || '%';

-- name: stop_jobs
-- Returns the running jobs of an account to the queue; the attempts do not count.
UPDATE job SET state = 'pending', worker = NULL, lease_until = NULL,
  attempts_since_progress = CASE WHEN attempts_since_progress > 0
    THEN attempts_since_progress - 1 ELSE 0 END
WHERE account_id = :account_id AND state = 'running'
RETURNING id;

-- name: expire_leases
-- Only for a process that is alone on the store: all running jobs are free at once.
UPDATE job SET lease_until = 0 WHERE state = 'running';

-- name: expire_leases_of
-- Of a process that has ended; unlike after a release, the attempts count.
UPDATE job SET lease_until = 0 WHERE state = 'running' AND worker = :worker;

-- name: next_lease_end
-- Until then, no other worker's job becomes free.
SELECT MIN(lease_until) AS ends_at FROM job
WHERE state = 'running' AND lease_until > :now AND worker <> :worker;

-- name: renew
-- Extends a lease that is still held.
UPDATE job SET lease_until = :now + :lease_s
WHERE id = :id AND worker = :worker AND attempt = :attempt AND state = 'running';

-- name: check_lease
-- No row if the lease is lost. Other writes to the job wait until the transaction ends, and statements
-- after this one see what earlier transactions wrote.
SELECT 1 AS held FROM job
WHERE id = :id AND worker = :worker AND attempt = :attempt AND state = 'running'
-- on postgresql: FOR NO KEY UPDATE
;

-- name: begin_batch
-- Marks the job with a batch of its lease, and adds what the batch will make visible. No row, and no
-- change by the statements of the batch, all of which look for the mark, if an entry is missing that
-- it publishes or updates, has another position, or comes after one that is not visible; or if
-- another transaction wrote a batch of the job meanwhile. A batch that is repeated after a later one
-- does not decrease `completed`.
UPDATE job SET batch_id = :batch_id, total = COALESCE(:total, total),
  completed = CASE WHEN :completed > completed THEN :completed ELSE completed END,
  outcome = COALESCE(:outcome, outcome), published = published + batch.new_positions,
  attempts_since_progress = CASE
    WHEN :has_updates OR batch.new_entries > 0 OR batch.new_positions > 0 OR EXISTS (
      SELECT 1 FROM rows_of(:url_outcomes, url TEXT) AS new
      WHERE (SELECT 1 FROM receipt WHERE job_id = :id AND receipt.url = new.url) IS NULL
    ) THEN 0
    ELSE attempts_since_progress END
FROM (
  SELECT COALESCE(MAX(position), -1) AS last_position,
    COUNT(CASE WHEN stored IS NULL THEN 1 END) AS new_entries,
    COUNT(CASE WHEN stored IS NULL OR stored = -1 THEN position END) AS new_positions,
    COUNT(CASE
      WHEN stored IS NULL THEN CASE WHEN is_stored THEN 1 END
      WHEN stored = -1 THEN CASE WHEN is_visible THEN 1 END
      WHEN stored <> position THEN 1
    END) AS refused
  FROM (
    -- A subquery: with a join, PostgreSQL may read all entries of a job whose number it does not know.
    SELECT position, is_stored, is_visible, (
      SELECT COALESCE(entry.position, -1) FROM entry
      WHERE entry.job_id = :id AND entry.ordinal = place.ordinal
    ) AS stored
    FROM rows_of(
      :places, ordinal BIGINT, position BIGINT, is_stored BOOLEAN, is_visible BOOLEAN
    ) AS place
  ) AS places
) AS batch
WHERE id = :id AND worker = :worker AND attempt = :attempt AND state = 'running'
  AND batch.refused = 0 AND batch.last_position < published + batch.new_positions
  -- PostgreSQL waits for a transaction that writes to the job, and then checks the job's new row, but
  -- the subqueries saw the database as it was before.
  AND batch_id = (SELECT batch_id FROM job AS before WHERE before.id = :id)
RETURNING batch_id;

-- name: stored_entries
SELECT entry.ordinal, entry.content_id FROM rows_of(:places, ordinal BIGINT) AS place
JOIN entry ON entry.job_id = :job_id AND entry.ordinal = place.ordinal;

-- name: put_entries
-- Stored entries stay as they are, but may become visible.
INSERT INTO entry (
  job_id, ordinal, position, url, success, page, journal, charged, content_id, visit
)
SELECT job.id, new.ordinal, new.position, new.url, new.success, new.page, new.journal, new.charged,
  new.content_id, new.visit
FROM rows_of(
  :rows, ordinal BIGINT, position BIGINT, url TEXT, success BOOLEAN, charged TEXT, visit TEXT,
  page BLOB, journal BLOB, content_id BLOB
) AS new, job
WHERE job.id = :job_id AND job.batch_id = :batch_id
ON CONFLICT (job_id, ordinal) DO UPDATE SET position = excluded.position
WHERE entry.position IS NULL AND excluded.position IS NOT NULL;

-- name: update_entries
-- Adds content to rows that may be visible already; their positions stay.
UPDATE entry SET page = new.page, journal = new.journal, success = new.success,
  charged = new.charged, content_id = new.content_id
FROM rows_of(
  :rows, ordinal BIGINT, success BOOLEAN, charged TEXT, page BLOB, journal BLOB, content_id BLOB
) AS new, job
WHERE job.id = :job_id AND job.batch_id = :batch_id
  AND entry.job_id = :job_id AND entry.ordinal = new.ordinal;

-- name: publish
-- Makes stored entries visible at their final positions.
UPDATE entry SET position = new.position
FROM rows_of(:rows, ordinal BIGINT, position BIGINT) AS new, job
WHERE job.id = :job_id AND job.batch_id = :batch_id
  AND entry.job_id = :job_id AND entry.ordinal = new.ordinal AND entry.position IS NULL;

-- name: job_by_id
-- Loads a job inside a transaction, whatever its account.
SELECT * FROM job WHERE id = :id;

-- name: put_pinned_files
INSERT INTO snapshot (job_id, name, body)
SELECT job.id, new.name, new.body FROM rows_of(:rows, name TEXT, body BLOB) AS new, job
WHERE job.id = :job_id AND job.batch_id = :batch_id
ON CONFLICT (job_id, name) DO NOTHING;

-- name: pinned_files
SELECT name, body FROM snapshot WHERE job_id = :job_id;

-- name: put_crawl_state
INSERT INTO crawl_state (job_id, next_ordinal, state) VALUES (:job_id, :next_ordinal, :state)
ON CONFLICT (job_id) DO UPDATE SET next_ordinal = excluded.next_ordinal, state = excluded.state;

-- name: crawl_state
SELECT next_ordinal, state FROM crawl_state WHERE job_id = :job_id;

-- name: delete_crawl_state
-- Of a job that has ended: nothing continues it.
DELETE FROM crawl_state WHERE job_id = :job_id;

-- name: pass_checkpoint
-- If another job waits, the job returns to the queue, behind it.
UPDATE job SET settled_rows = published, settled_credits = settled_credits + :credits,
  reserved = :reserved, attempts_since_progress = 0,
  state = CASE WHEN waiting.jobs > 0 THEN 'pending' ELSE state END,
  worker = CASE WHEN waiting.jobs > 0 THEN NULL ELSE worker END,
  lease_until = CASE WHEN waiting.jobs > 0 THEN NULL ELSE lease_until END,
  queued_at = CASE WHEN waiting.jobs > 0 THEN :now ELSE queued_at END
FROM (
  SELECT COUNT(*) AS jobs FROM job AS other WHERE other.state = 'pending'
    AND other.account_id NOT IN (SELECT id FROM account WHERE suspended_at IS NOT NULL)
) AS waiting
WHERE id = :id AND worker = :worker AND attempt = :attempt AND state = 'running'
RETURNING state;

-- name: finish
-- Only the holder of the lease ends a running job.
UPDATE job SET state = :state, error = :error, finished_at = :now,
  worker = NULL, lease_until = NULL
WHERE id = :id AND worker = :worker AND attempt = :attempt AND state = 'running'
RETURNING *;

-- name: cancel
-- Cancels a pending or running job; the worker's next write finds its lease lost.
UPDATE job SET state = 'cancelled', finished_at = :now, worker = NULL, lease_until = NULL
WHERE id = :id AND account_id = :account_id AND state IN ('pending', 'running')
RETURNING *;

-- name: disown_job
-- Deletes an ended job of an account for everyone who could read it; retention deletes the rest.
UPDATE job SET account_id = NULL, expired_at = COALESCE(expired_at, :now)
WHERE id = :id AND account_id = :account_id AND state IN ('completed', 'failed', 'cancelled');

-- name: forget_starts
-- A key that started the job starts another one.
DELETE FROM idempotency WHERE account_id = :account_id AND job_id = :id;

-- name: journal
-- The journal of a job in order, to continue the job after a restart, or for the facts of its pages.
SELECT e.ordinal, e.position, e.url, e.success, e.page, e.journal, e.visit, e.content_id, c.body,
  c.size, c.segment
FROM entry e LEFT JOIN content c ON c.id = e.content_id
WHERE e.job_id = :job_id AND e.ordinal >= :start ORDER BY e.ordinal LIMIT :count;

-- name: visits
-- The pages of an account's job of which later crawls may ask whether they have changed.
SELECT e.ordinal, e.url, e.visit FROM entry e JOIN job j ON j.id = e.job_id
WHERE e.job_id = :job_id AND j.account_id = :account_id AND e.visit IS NOT NULL
ORDER BY e.ordinal;

-- name: whole_entry
SELECT e.ordinal, e.position, e.url, e.success, e.page, e.journal, e.visit, e.content_id, c.body,
  c.size, c.segment
FROM entry e JOIN job j ON j.id = e.job_id LEFT JOIN content c ON c.id = e.content_id
WHERE e.job_id = :job_id AND j.account_id = :account_id AND e.ordinal = :ordinal;

-- name: rows
-- Visible rows of an account's job in order.
SELECT e.ordinal, e.position, e.url, e.success, e.page, e.journal, e.visit, e.content_id, c.body,
  c.size, c.segment
FROM entry e JOIN job j ON j.id = e.job_id LEFT JOIN content c ON c.id = e.content_id
WHERE e.job_id = :job_id AND j.account_id = :account_id
  AND e.position >= :start AND e.position < :stop
ORDER BY e.position;

-- name: row_of_url
-- The visible row of an account's job with a URL.
SELECT e.ordinal, e.position, e.url, e.success, e.page, e.journal, e.visit, e.content_id, c.body,
  c.size, c.segment
FROM entry e JOIN job j ON j.id = e.job_id LEFT JOIN content c ON c.id = e.content_id
WHERE e.job_id = :job_id AND j.account_id = :account_id AND e.url = :url
  AND e.position IS NOT NULL
ORDER BY e.position LIMIT 1;

-- name: job_counts
-- Of all accounts, for the metrics.
SELECT kind, state, COUNT(*) AS n FROM job GROUP BY kind, state;

-- name: active_jobs
-- Without those that wait for the end of a suspension.
SELECT COUNT(*) AS n FROM job WHERE state IN ('pending', 'running')
  AND account_id NOT IN (SELECT id FROM account WHERE suspended_at IS NOT NULL);

-- name: published_counts
-- Jobs with visible rows, of one account or of all.
SELECT id, published FROM job WHERE published > 0 AND expired_at IS NULL
  AND (CAST(:account_id AS TEXT) IS NULL OR account_id = :account_id)
ORDER BY created_at, id;

-- name: unindexed_rows
SELECT e.ordinal, e.position, e.url, e.success, e.page, e.journal, e.visit, e.content_id, c.body,
  c.size, c.segment
FROM entry e LEFT JOIN content c ON c.id = e.content_id
WHERE e.job_id = :job_id AND e.position >= :start AND e.position < :stop ORDER BY e.position;

-- name: indexed_fields
-- Decoding the other formats of a large page in Python would hold the interpreter's lock for long.
SELECT CAST(json_object(
  'url', json_extract(page, '$.url'),
  'title', json_extract(page, '$.title'),
  'markdown', json_extract(page, '$.markdown')
) AS BLOB) AS page
FROM (SELECT CAST(:page AS TEXT) AS page) AS whole;

-- name: indexed_fields on postgresql
-- PostgreSQL's functions refuse texts with NUL.
SELECT convert_to(json_build_object(
  'url', page -> 'url', 'title', page -> 'title', 'markdown', page -> 'markdown'
)::text, 'UTF8') AS page
FROM (
  SELECT replace(convert_from(:page, 'UTF8'), '\u0000', '\ufffd')::json AS page
) AS whole;

-- name: row_summaries
-- The rows of a search are visible before their pages are fetched; their journals, which are short,
-- have the state of the page.
SELECT e.position, e.url,
  CASE WHEN j.kind = 'search' THEN COALESCE(json_extract(CAST(e.journal AS TEXT), '$.success'), e.success)
    ELSE e.success END AS success,
  CASE WHEN j.kind = 'search' THEN COALESCE(json_extract(CAST(e.journal AS TEXT), '$.done'), 1)
    ELSE 1 END AS final
FROM entry e JOIN job j ON j.id = e.job_id
WHERE e.job_id = :job_id AND e.position >= :start AND e.position < :stop ORDER BY e.position;

-- name: row_summaries on postgresql
SELECT e.position, e.url,
  CASE WHEN j.kind = 'search'
    THEN COALESCE((convert_from(e.journal, 'UTF8')::json ->> 'success')::boolean, e.success)
    ELSE e.success END AS success,
  CASE WHEN j.kind = 'search'
    THEN COALESCE((convert_from(e.journal, 'UTF8')::json ->> 'done')::boolean, TRUE)
    ELSE TRUE END AS final
FROM entry e JOIN job j ON j.id = e.job_id
WHERE e.job_id = :job_id AND e.position >= :start AND e.position < :stop ORDER BY e.position;

-- name: lock_queue
-- Claims are made one after the other, so that each sees what earlier ones took. A database with a
-- single writer needs no lock.
SELECT 1 AS locked;

-- name: lock_queue on postgresql
SELECT 1 AS locked FROM pg_advisory_xact_lock(hashtext(current_schema() || ' queue'));
