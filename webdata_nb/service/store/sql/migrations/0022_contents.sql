-- What visits of a page have in common, compressed: stored once for each account, or once for each
-- visit where a job sends its own headers or cookies. `id` is the hash of what `body` compresses, and
-- `size` its bytes. `segment` names the file that has it if `body` is NULL.
CREATE TABLE content (
  id BLOB PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  body BLOB,
  size BIGINT NOT NULL,
  segment TEXT
);
-- Compressed already.
-- on postgresql: ALTER TABLE content ALTER COLUMN body SET STORAGE EXTERNAL;

-- The rest of the entry: `page` then has only what belongs to its visit. Entries of earlier releases
-- and small ones have no content. The reference keeps a content that an entry is about to use.
ALTER TABLE entry ADD COLUMN content_id BLOB REFERENCES content (id);
CREATE INDEX entry_content ON entry (content_id) WHERE content_id IS NOT NULL;
