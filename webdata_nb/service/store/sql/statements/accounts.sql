-- name: add_account
-- An existing account keeps its name and its terms; no two accounts have one name.
INSERT INTO account (id, name, created_at, plan, monthly, concurrency)
VALUES (:id, :name, :now, :plan, :monthly, :concurrency) ON CONFLICT DO NOTHING;

-- name: account_named
SELECT * FROM account WHERE name = :name;

-- name: accounts
SELECT * FROM account ORDER BY created_at, id;

-- name: set_terms
UPDATE account SET plan = :plan, monthly = :monthly, concurrency = :concurrency WHERE id = :id;

-- name: suspend_account
UPDATE account SET suspended_at = COALESCE(suspended_at, :now) WHERE id = :id;

-- name: resume_account
UPDATE account SET suspended_at = NULL WHERE id = :id;

-- name: mark_account_deleted
UPDATE account SET deleted_at = COALESCE(deleted_at, :now),
  suspended_at = COALESCE(suspended_at, :now)
WHERE id = :id;

-- name: delete_keys
DELETE FROM api_key WHERE account_id = :account_id;

-- name: account_contents
-- What a deletion of the account deletes; `bytes` are those of pages before their compression.
SELECT COUNT(*) AS jobs,
  COUNT(CASE WHEN state IN ('pending', 'running') THEN 1 END) AS active_jobs,
  COALESCE(SUM(CASE WHEN expired_at IS NULL THEN published ELSE 0 END), 0) AS rows,
  (SELECT COUNT(*) FROM delivery WHERE delivery.account_id = :account_id) AS deliveries,
  (SELECT COUNT(*) FROM api_key WHERE api_key.account_id = :account_id) AS keys,
  (SELECT COUNT(*) FROM segment WHERE segment.account_id = :account_id) AS segments,
  (SELECT COALESCE(SUM(size), 0) FROM content WHERE id IN (
    SELECT content_id FROM entry WHERE job_id IN (
      SELECT id FROM job WHERE account_id = :account_id
    )
  )) AS bytes
FROM job WHERE account_id = :account_id;

-- name: active_jobs_of
SELECT id FROM job WHERE account_id = :account_id AND state IN ('pending', 'running')
ORDER BY id LIMIT :limit;

-- name: end_of_calls
-- When the last call that is under way ends at the latest.
SELECT MAX(until) AS ends_at FROM hold WHERE account_id = :account_id AND until >= :now;

-- name: remains_of_account
SELECT (SELECT COUNT(*) FROM job WHERE account_id = :account_id)
  + (SELECT COUNT(*) FROM hold WHERE account_id = :account_id)
  + (SELECT COUNT(*) FROM delivery WHERE account_id = :account_id)
  + (SELECT COUNT(*) FROM idempotency WHERE account_id = :account_id)
  + (SELECT COUNT(*) FROM segment WHERE account_id = :account_id) AS n;

-- name: clear_account
-- The ledger stays, under a name that tells nothing.
UPDATE account SET name = 'deleted ' || id, cleared_at = :now WHERE id = :id;

-- name: deleted_accounts
SELECT id FROM account WHERE deleted_at >= :since ORDER BY id;

-- name: add_key
-- Only the hash of a key is stored.
INSERT INTO api_key (id, account_id, name, hash, created_at, scopes, ends_at)
VALUES (:id, :account_id, :name, :hash, :now, :scopes, :ends_at);

-- name: valid_key
-- A key ends when it is revoked, or some time after its rotation, or expires.
SELECT id, account_id, scopes, ends_at, (
  SELECT suspended_at FROM account WHERE account.id = api_key.account_id
) AS suspended_at FROM api_key
WHERE hash = :hash AND (ends_at IS NULL OR ends_at > :now);

-- name: keys
-- All keys ever made, of one account or of all, with their account's name.
SELECT
  k.id, k.name, k.created_at, k.scopes, k.ends_at, k.last_used_at, k.account_id, a.name AS account
FROM api_key k JOIN account a ON a.id = k.account_id
WHERE (CAST(:account_id AS TEXT) IS NULL OR k.account_id = :account_id) ORDER BY k.created_at, k.id;

-- name: key
SELECT * FROM api_key WHERE id = :id;

-- name: end_key
-- A key ends once, at the earliest of the times given.
UPDATE api_key SET ends_at = :at WHERE id = :id AND (ends_at IS NULL OR ends_at > :at);

-- name: use_key
-- Another process may have written a use of the same minute.
UPDATE api_key SET last_used_at = :at
WHERE id = :id AND (last_used_at IS NULL OR last_used_at <= :at - CAST(:interval_s AS DOUBLE PRECISION));

-- name: all_keys
SELECT * FROM api_key ORDER BY created_at, id;

-- name: key_with_hash
SELECT * FROM api_key WHERE id = :id OR hash = :hash;

-- name: account_with
-- The accounts that an imported one could be, or collide with.
SELECT * FROM account WHERE id = :id OR name = :name;

-- name: import_account
INSERT INTO account (
  id, name, created_at, plan, monthly, concurrency, monthly_left, topup_left, period_start, lines,
  suspended_at, deleted_at, cleared_at
) VALUES (
  :id, :name, :created_at, :plan, :monthly, :concurrency, :monthly_left, :topup_left, :period_start,
  :lines, :suspended_at, :deleted_at, :cleared_at
);

-- name: import_key
INSERT INTO api_key (id, account_id, name, hash, created_at, scopes, ends_at, last_used_at)
VALUES (:id, :account_id, :name, :hash, :created_at, :scopes, :ends_at, :last_used_at);
