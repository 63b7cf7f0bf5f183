-- name: add_delivery
-- An event that is stored is not stored again; a replay is.
INSERT INTO delivery
  (id, event_id, account_id, job_id, event, profile, endpoint, body, replay, state, created_at, due_at)
VALUES (:id, :event_id, :account_id, :job_id, :event, :profile, :endpoint, :body, :replay,
  'pending', :now, :now)
ON CONFLICT DO NOTHING;

-- name: due_endpoints
-- Endpoints with due deliveries and a free lane, and how many lanes they can use: each lease is a
-- lane, of whichever process. Deliveries of suspended accounts wait.
SELECT account_id, endpoint,
  CASE WHEN n < :lanes - leased THEN n ELSE :lanes - leased END AS n
FROM (
  SELECT account_id, endpoint,
    SUM(CASE WHEN due_at <= :now AND lease_until <= :now THEN 1 ELSE 0 END) AS n,
    SUM(CASE WHEN lease_until > :now THEN 1 ELSE 0 END) AS leased,
    MIN(CASE WHEN due_at <= :now AND lease_until <= :now THEN due_at END) AS due
  FROM delivery WHERE state = 'pending'
    AND account_id NOT IN (SELECT id FROM account WHERE suspended_at IS NOT NULL)
  GROUP BY account_id, endpoint
) AS endpoints
WHERE n > 0 AND leased < :lanes ORDER BY due;

-- name: next_due
-- Those that are due already wait for a lane, and not for a time.
SELECT MIN(due) AS due FROM (
  SELECT CASE WHEN lease_until > due_at THEN lease_until ELSE due_at END AS due
  FROM delivery WHERE state = 'pending'
) AS pending WHERE due > :now;

-- name: lock_endpoint
-- Deliveries of an endpoint are leased one after the other, so that each lease sees the others. A
-- database with a single writer needs no lock.
SELECT 1 AS locked;

-- name: lock_endpoint on postgresql
SELECT 1 AS locked FROM pg_advisory_xact_lock(
  hashtext(current_schema() || ' ' || :account_id), hashtext(:endpoint)
);

-- name: take_delivery
-- Leases the oldest due delivery of an endpoint, unless all its lanes are in use; only the lease may
-- record the attempt.
UPDATE delivery SET lease = :lease, lease_until = :now + :lease_s
WHERE id = (
  SELECT id FROM delivery
  WHERE account_id = :account_id AND endpoint = :endpoint AND state = 'pending'
    AND due_at <= :now AND lease_until <= :now
    AND account_id NOT IN (SELECT id FROM account WHERE suspended_at IS NOT NULL)
    AND :lanes > (
      SELECT COUNT(*) FROM delivery
      WHERE account_id = :account_id AND endpoint = :endpoint AND state = 'pending'
        AND lease_until > :now
    )
  ORDER BY due_at, created_at, id LIMIT 1
  -- on postgresql: FOR UPDATE SKIP LOCKED
)
RETURNING *;

-- name: record_attempt
-- An attempt counts once its result is known; one that a kill cut short is made again.
UPDATE delivery SET state = :state, due_at = :due_at, ended_at = :ended_at, status = :status,
  error = :error, attempts = attempts + 1, lease = NULL, lease_until = 0
WHERE id = :id AND lease = :lease;

-- name: release_delivery
-- Of a process that stops: another one makes the attempt again.
UPDATE delivery SET lease = NULL, lease_until = 0 WHERE id = :id AND lease = :lease;

-- name: expire_delivery_leases
-- Only for a process that is alone on the store.
UPDATE delivery SET lease = NULL, lease_until = 0 WHERE state = 'pending';

-- name: pending_deliveries
SELECT COUNT(*) AS n FROM delivery WHERE state = 'pending';

-- name: deliveries
-- An account's deliveries, of one job or of all, newest first; without those of deleted jobs.
SELECT * FROM delivery
WHERE account_id = :account_id AND (CAST(:job_id AS TEXT) IS NULL OR job_id = :job_id)
  AND (created_at, id) < (:before, :before_id)
  AND (SELECT account_id FROM job WHERE job.id = delivery.job_id) IS NOT NULL
ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: delivery
SELECT * FROM delivery
WHERE id = :id AND account_id = :account_id
  AND (SELECT account_id FROM job WHERE job.id = delivery.job_id) IS NOT NULL;

-- name: account_delivery_counts
SELECT event, state, COUNT(*) AS n, SUM(attempts) AS attempts FROM delivery
WHERE account_id = :account_id GROUP BY event, state;

-- name: delivery_counts
-- Of all accounts, for the metrics.
SELECT state, COUNT(*) AS n FROM delivery GROUP BY state;
