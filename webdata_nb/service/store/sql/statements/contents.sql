-- name: put_contents
-- The contents of entries that are written next; other entries may have brought them already.
INSERT INTO content (id, account_id, body, size) VALUES (:id, :account_id, :body, :size)
ON CONFLICT (id) DO NOTHING;

-- name: put_contents on postgresql
INSERT INTO content (id, account_id, body, size)
SELECT * FROM unnest(:id::bytea[], :account_id::text[], :body::bytea[], :size::bigint[])
ON CONFLICT (id) DO NOTHING;

-- name: lock_content
-- Of two transactions that delete the last uses of a content, the second sees what the first has
-- deleted. Entries that begin to use it do not wait.
SELECT id FROM content WHERE id = :id
-- on postgresql: FOR NO KEY UPDATE
;

-- name: delete_unused_content
DELETE FROM content
WHERE id = :id AND NOT EXISTS (SELECT 1 FROM entry WHERE content_id = :id);

-- name: contents
-- In the order of their ids, from the one after `:after`.
SELECT id, body, size, segment FROM content WHERE id > :after ORDER BY id LIMIT :limit;
