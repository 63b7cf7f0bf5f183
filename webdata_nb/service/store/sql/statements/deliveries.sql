-- name: add_delivery
-- An event that is stored is not stored again; a replay is.
INSERT INTO delivery
  (id, event_id, account_id, job_id, event, profile, endpoint, body, replay, state, created_at, due_at)
VALUES (:id, :event_id, :account_id, :job_id, :event, :profile, :endpoint, :body, :replay,
  'pending', :now, :now)
ON CONFLICT DO NOTHING;

-- name: due_endpoints
-- Endpoints with due deliveries, and their number.
SELECT account_id, endpoint, COUNT(*) AS n, MIN(due_at) AS due FROM delivery
WHERE state = 'pending' AND due_at <= :now AND lease_until <= :now
GROUP BY account_id, endpoint ORDER BY due;

-- name: next_due
SELECT MIN(CASE WHEN lease_until > due_at THEN lease_until ELSE due_at END) AS due
FROM delivery WHERE state = 'pending';

-- name: take_delivery
-- Leases the oldest due delivery of an endpoint; only the lease may record the attempt.
UPDATE delivery SET lease = :lease, lease_until = :now + :lease_s
WHERE id = (
  SELECT id FROM delivery
  WHERE account_id = :account_id AND endpoint = :endpoint AND state = 'pending'
    AND due_at <= :now AND lease_until <= :now
  ORDER BY due_at, created_at, id LIMIT 1
  -- on postgresql: FOR UPDATE SKIP LOCKED
)
RETURNING *;

-- name: record_attempt
-- An attempt counts once its result is known; one that a kill cut short is made again.
UPDATE delivery SET state = :state, due_at = :due_at, ended_at = :ended_at, status = :status,
  error = :error, attempts = attempts + 1, lease = NULL, lease_until = 0
WHERE id = :id AND lease = :lease;

-- name: expire_delivery_leases
-- Only for a process that is alone on the store.
UPDATE delivery SET lease = NULL, lease_until = 0 WHERE state = 'pending';

-- name: pending_deliveries
SELECT COUNT(*) AS n FROM delivery WHERE state = 'pending';

-- name: deliveries
-- An account's deliveries, of one job or of all, newest first.
SELECT * FROM delivery
WHERE account_id = :account_id AND (CAST(:job_id AS TEXT) IS NULL OR job_id = :job_id)
  AND (created_at, id) < (:before, :before_id)
ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: delivery
SELECT * FROM delivery WHERE id = :id AND account_id = :account_id;

-- name: account_delivery_counts
SELECT event, state, COUNT(*) AS n, SUM(attempts) AS attempts FROM delivery
WHERE account_id = :account_id GROUP BY event, state;

-- name: delivery_counts
-- Of all accounts, for the metrics.
SELECT state, COUNT(*) AS n FROM delivery GROUP BY state;
