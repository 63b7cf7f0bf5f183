-- name: put_contents
-- The contents of entries that are written next; other entries may have brought them already. Those
-- of new entries have their `ordinal`: an entry that is stored stays as it is.
INSERT INTO content (id, account_id, body, size)
SELECT new.id, job.account_id, new.body, new.size
FROM rows_of(:rows, ordinal BIGINT, size BIGINT, id BLOB, body BLOB) AS new, job
WHERE job.id = :job_id AND job.batch_id = :batch_id AND (
  SELECT 1 FROM entry WHERE entry.job_id = :job_id AND entry.ordinal = new.ordinal
) IS NULL
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
