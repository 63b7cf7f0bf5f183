-- name: add_account
-- An account that exists already keeps its name.
INSERT INTO account (id, name, created_at) VALUES (:id, :name, :now) ON CONFLICT (id) DO NOTHING;

-- name: add_key
-- Only the hash of a key is stored.
INSERT INTO api_key (id, account_id, name, hash, created_at)
VALUES (:id, :account_id, :name, :hash, :now);

-- name: account_of_key
-- Whose key this is, unless it was revoked.
SELECT account_id FROM api_key WHERE hash = :hash AND revoked_at IS NULL;
