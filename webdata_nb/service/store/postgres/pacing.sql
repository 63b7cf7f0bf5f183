-- The rates and circuits of hosts and providers, which the processes of a service share.

-- name: reserve
-- A row's last_start is the last start that anyone has reserved. After a crash of the database the
-- tables are empty: starts that were reserved before it must have passed.
INSERT INTO pacing AS p (key, last_start, interval_s, count)
SELECT r.key,
  GREATEST(
    EXTRACT(EPOCH FROM clock_timestamp())::float8 + :lead_s,
    COALESCE((SELECT started_at FROM pacing_epoch), EXTRACT(EPOCH FROM clock_timestamp())::float8)
      + :replicas * GREATEST(r.interval_s, :reserved_s)
  ) + (r.count - 1) * r.interval_s,
  r.interval_s, r.count
FROM unnest(:keys::text[], :intervals::float8[], :counts::int[]) AS r (key, interval_s, count)
ORDER BY r.key
ON CONFLICT (key) DO UPDATE SET
  last_start = GREATEST(
    EXCLUDED.last_start,
    GREATEST(
      p.last_start + EXCLUDED.interval_s, EXTRACT(EPOCH FROM clock_timestamp())::float8 + :lead_s
    ) + (EXCLUDED.count - 1) * EXCLUDED.interval_s
  ),
  interval_s = EXCLUDED.interval_s,
  count = EXCLUDED.count
RETURNING key, last_start - (count - 1) * interval_s AS first;

-- name: lock_states
-- The present states of keys, locked until the end of the transaction.
INSERT INTO pacing (key) SELECT unnest(:keys::text[]) ORDER BY 1
ON CONFLICT (key) DO UPDATE SET key = EXCLUDED.key
RETURNING key, pause_s, paused_until, failures, openings, open_until, status;

-- name: write_state
UPDATE pacing SET pause_s = :pause_s, paused_until = :paused_until, failures = :failures,
  openings = :openings, open_until = :open_until, status = :status,
  changed_at = EXTRACT(EPOCH FROM clock_timestamp())
WHERE key = :key;

-- name: changed_states
SELECT key, pause_s, paused_until, failures, openings, open_until, status FROM pacing
WHERE changed_at > :since;

-- name: start_epoch
-- After a crash of the database this table is empty.
INSERT INTO pacing_epoch (started_at)
SELECT EXTRACT(EPOCH FROM clock_timestamp()) WHERE NOT EXISTS (SELECT FROM pacing_epoch)
ON CONFLICT DO NOTHING;

-- name: epoch
SELECT started_at FROM pacing_epoch;

-- name: delete_idle
-- What nobody has used for a while; rows that others use at this moment stay.
DELETE FROM pacing WHERE key IN (
  SELECT key FROM pacing
  WHERE GREATEST(last_start + interval_s, paused_until, open_until, changed_at) < :before
  LIMIT 10000 FOR UPDATE SKIP LOCKED
);
