-- name: heartbeat
-- A replica whose jobs run in Dask workers has no slots, until it runs them itself again.
INSERT INTO replica (id, name, slots, started_at, seen_at, kind, version)
VALUES (:id, :name, :slots, :started_at, :now, :kind, :version)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, slots = excluded.slots;

-- name: delete_replica
DELETE FROM replica WHERE id = :id;

-- name: delete_old_replicas
-- A process that starts again under its name replaces the one that was killed.
DELETE FROM replica WHERE id <> :id AND (name = :name OR seen_at < :since);

-- name: replica_slots
-- The slots of each live replica, and the jobs to divide among them.
SELECT id, slots, (
  SELECT COUNT(*) FROM job WHERE state IN ('pending', 'running')
    AND account_id NOT IN (SELECT id FROM account WHERE suspended_at IS NOT NULL)
) AS active_jobs
FROM replica WHERE seen_at >= :since;

-- name: live_replicas
SELECT * FROM replica WHERE seen_at >= :since ORDER BY started_at, id;
