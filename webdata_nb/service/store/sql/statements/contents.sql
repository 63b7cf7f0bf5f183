-- name: put_content
-- The content of an entry that is stored; another entry may have brought it already.
INSERT INTO content (id, account_id, body, size)
SELECT :id, account_id, :body, :size FROM job WHERE id = :job_id
ON CONFLICT (id) DO NOTHING;

-- name: put_new_content
-- The content of an entry that is about to be stored. An entry that is stored keeps its content, and
-- nothing would use this one.
INSERT INTO content (id, account_id, body, size)
SELECT :id, account_id, :body, :size FROM job
WHERE id = :job_id
  AND NOT EXISTS (SELECT 1 FROM entry WHERE job_id = :job_id AND ordinal = :ordinal)
ON CONFLICT (id) DO NOTHING;

-- name: put_new_contents only on postgresql
-- The contents of entries that are new, as `put_entries` checks afterwards.
INSERT INTO content (id, account_id, body, size)
SELECT new.id, job.account_id, new.body, new.size
FROM job, ROWS FROM (
  unnest(:ids::bytea[]), unnest(:bodies::bytea[]), unnest(:sizes::bigint[])
) AS new (id, body, size)
WHERE job.id = :job_id
ON CONFLICT (id) DO NOTHING;

-- name: content_of_entry
SELECT content_id FROM entry
WHERE job_id = :job_id AND ordinal = :ordinal AND content_id IS NOT NULL;

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
