-- name: add_job
-- A job is durable before it is answered.
INSERT INTO job (
  id, account_id, key_id, kind, state, subject, request, context, sealed, created_at, reserved,
  unlimited, sealing
) VALUES (
  :id, :account_id, :key_id, :kind, 'pending', :subject, :request, '{}', :sealed, :now, :reserved,
  :unlimited, 2
);

-- name: idempotent
-- The start that an earlier request made under this key, within its day.
SELECT fingerprint, job_id FROM idempotency
WHERE account_id = :account_id AND key = :key AND created_at > :since;

-- name: remember_key
-- A key past its day may be used anew.
INSERT INTO idempotency (account_id, key, fingerprint, job_id, created_at)
VALUES (:account_id, :key, :fingerprint, :job_id, :now)
ON CONFLICT (account_id, key) DO UPDATE
SET fingerprint = excluded.fingerprint, job_id = excluded.job_id, created_at = excluded.created_at;

-- name: job
-- The one loader of a job for a caller: the owner is part of the question.
SELECT * FROM job WHERE id = :id AND account_id = :account_id;

-- name: jobs
-- A caller's jobs, newest first, older than the cursor.
SELECT * FROM job
WHERE account_id = :account_id AND (created_at, id) < (:before, :before_id)
ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: claim
-- The next jobs of those that wait, whose worker let its lease run out, or that this worker holds and
-- does not work on: `:held` has the ids of those that it does. The attempt fences writes. Of the jobs
-- that have ended `:suspect` attempts without progress only one runs at a time, the oldest first: one
-- that crashes the service does not use up the attempts of the others.
-- Accounts take turns: an account's first job comes before any account's second, running ones
-- included, and within a turn the older job goes first. `:spare` places are for first jobs alone.
WITH queue AS (
  SELECT id, account_id, created_at, attempts_since_progress,
    (state = 'pending' OR lease_until < :now OR worker = :worker)
      AND :held NOT LIKE '%' || id || '%' AS is_free
  FROM job WHERE state IN ('pending', 'running')
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
          OR :held LIKE '%' || other.id || '%'
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
  SELECT id FROM places WHERE place <= :most OR (turn = 1 AND place <= :most + :spare)
)
RETURNING *;

-- name: release
-- A worker that stops in good order, or does not know whether its claim was written, gives the jobs
-- back that it does not work on, and the attempt does not count.
UPDATE job SET lease_until = 0,
  attempts_since_progress = CASE WHEN attempts_since_progress > 0
    THEN attempts_since_progress - 1 ELSE 0 END
WHERE worker = :worker AND state = 'running' AND :held NOT LIKE '%' || id || '%';

-- name: void_leases
-- With the data directory's lock held no other worker lives: running jobs are free at once.
UPDATE job SET lease_until = 0 WHERE state = 'running';

-- name: renew
-- Extends a lease that is still held; touches nothing otherwise.
UPDATE job SET lease_until = :now + :lease_s
WHERE id = :id AND worker = :worker AND attempt = :attempt AND state = 'running';

-- name: hold
-- The fence before every write of an engine: no row changes when the lease is lost. A batch that
-- comes after a later one, for it had to be repeated, takes nothing back.
UPDATE job SET total = COALESCE(:total, total),
  completed = CASE WHEN :completed > completed THEN :completed ELSE completed END,
  outcome = COALESCE(:outcome, outcome)
WHERE id = :id AND worker = :worker AND attempt = :attempt AND state = 'running';

-- name: put_entry
-- A page fetched again after a kill replaces nothing that clients have seen.
INSERT INTO entry (job_id, ordinal, position, url, success, page, journal, charged)
VALUES (:job_id, :ordinal, :position, :url, :success, :page, :journal, :charged)
ON CONFLICT (job_id, ordinal) DO NOTHING;

-- name: update_page
-- A row that clients see gains content; its position stays.
UPDATE entry SET page = :page, journal = :journal, success = :success, charged = :charged
WHERE job_id = :job_id AND ordinal = :ordinal;

-- name: publish
-- Makes a stored entry visible at its final position.
UPDATE entry SET position = :position
WHERE job_id = :job_id AND ordinal = :ordinal AND position IS NULL;

-- name: visible_at
-- Whether an entry that a batch publishes is visible already, at this position.
SELECT 1 FROM entry WHERE job_id = :job_id AND ordinal = :ordinal AND position = :position;

-- name: progressed
-- The count of visible rows follows the rows, within the same transaction.
UPDATE job SET published = published + :published, attempts_since_progress = 0 WHERE id = :id
RETURNING published;

-- name: job_as_it_is
-- For what happens to a job inside a transaction, whoever owns it.
SELECT * FROM job WHERE id = :id;

-- name: put_snapshot
INSERT INTO snapshot (job_id, name, body) VALUES (:job_id, :name, :body)
ON CONFLICT (job_id, name) DO NOTHING;

-- name: snapshots
SELECT name, body FROM snapshot WHERE job_id = :job_id;

-- name: finish
-- Only the holder of the lease ends a running job.
UPDATE job SET state = :state, error = :error, finished_at = :now,
  worker = NULL, lease_until = NULL
WHERE id = :id AND worker = :worker AND attempt = :attempt AND state = 'running'
RETURNING *;

-- name: cancel
-- Cancels a job that waits or runs; the worker's next write finds itself fenced out.
UPDATE job SET state = 'cancelled', finished_at = :now, worker = NULL, lease_until = NULL
WHERE id = :id AND account_id = :account_id AND state IN ('pending', 'running')
RETURNING *;

-- name: entries
-- The journal of a job, in its order, for the worker that takes it up again.
SELECT ordinal, position, journal FROM entry WHERE job_id = :job_id ORDER BY ordinal;

-- name: pages
-- Visible rows of a caller's job, in their order.
SELECT e.page FROM entry e JOIN job j ON j.id = e.job_id
WHERE e.job_id = :job_id AND j.account_id = :account_id
  AND e.position >= :start AND e.position < :stop
ORDER BY e.position;

-- name: job_counts
-- All accounts together, for the operator's metrics.
SELECT kind, state, COUNT(*) AS n FROM job GROUP BY kind, state;

-- name: active_jobs
SELECT COUNT(*) AS n FROM job WHERE state IN ('pending', 'running');

-- name: published
-- Jobs with rows that a text index may hold, of one account or of all.
SELECT id, published FROM job WHERE published > 0 AND expired_at IS NULL
  AND (:account_id IS NULL OR account_id = :account_id)
ORDER BY created_at, id;

-- name: unindexed
-- Of pages what is indexed alone: Python would read the other formats of a large one without letting
-- another thread run.
SELECT position,
  CAST(json_object(
    'url', json_extract(CAST(page AS TEXT), '$.url'),
    'title', json_extract(CAST(page AS TEXT), '$.title'),
    'markdown', json_extract(CAST(page AS TEXT), '$.markdown')
  ) AS BLOB) AS page,
  journal, success FROM entry
WHERE job_id = :job_id AND position >= :start AND position < :stop ORDER BY position;

-- name: listed
-- The rows of a search are visible before their pages are fetched; their journals, which are
-- short, tell whether they were.
SELECT e.position, e.url,
  CASE WHEN j.kind = 'search' THEN COALESCE(json_extract(CAST(e.journal AS TEXT), '$.success'), e.success)
    ELSE e.success END AS success,
  CASE WHEN j.kind = 'search' THEN COALESCE(json_extract(CAST(e.journal AS TEXT), '$.done'), 1)
    ELSE 1 END AS final
FROM entry e JOIN job j ON j.id = e.job_id
WHERE e.job_id = :job_id AND e.position >= :start AND e.position < :stop ORDER BY e.position;
