-- A long crawl runs in legs. After each of them the job may return to the queue, behind others; the
-- credits of its rows are charged.
ALTER TABLE job ADD COLUMN queued_at DOUBLE PRECISION;
ALTER TABLE job ADD COLUMN settled_rows BIGINT NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN settled_credits BIGINT NOT NULL DEFAULT 0;

-- The state of a long crawl at the end of its last leg. It follows from the journal, which is
-- replayed where the state cannot be used.
CREATE TABLE crawl_state (
  job_id TEXT PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE,
  next_ordinal BIGINT NOT NULL,
  record BLOB NOT NULL
);
