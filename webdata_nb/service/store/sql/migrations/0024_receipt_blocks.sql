-- The receipt of a job that has ended, packed: its entries by URL, compressed in blocks. Entries that
-- are not packed yet come after those of the blocks.
CREATE TABLE receipt_block (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  number BIGINT NOT NULL,
  first_url TEXT NOT NULL,
  counts TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (job_id, number)
);
-- on postgresql: ALTER TABLE receipt_block ALTER COLUMN body SET STORAGE EXTERNAL;

ALTER TABLE job ADD COLUMN packed BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX job_unpacked ON job (finished_at, id) WHERE finished_at IS NOT NULL AND NOT packed;
