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
