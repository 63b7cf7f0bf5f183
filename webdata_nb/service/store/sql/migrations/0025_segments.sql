-- Files with the contents of one account (`content.segment`): `contents` is their number in the file,
-- and `state` is writing (its file may be missing or incomplete), stored, or deleting (nothing points
-- to it, and its file is about to be deleted).
CREATE TABLE segment (
  name TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  contents BIGINT NOT NULL,
  state TEXT NOT NULL,
  created_at DOUBLE PRECISION NOT NULL
);

CREATE INDEX content_segment ON content (segment) WHERE segment IS NOT NULL;

-- When the contents of an ended job had all been moved. Jobs of earlier releases have none.
ALTER TABLE job ADD COLUMN moved_at DOUBLE PRECISION;
UPDATE job SET moved_at = finished_at WHERE finished_at IS NOT NULL;
CREATE INDEX job_to_move ON job (finished_at, id) WHERE moved_at IS NULL;
