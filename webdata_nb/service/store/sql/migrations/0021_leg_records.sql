-- Each leg of a long crawl adds a record with what has changed in its state. A record of the whole
-- state replaces those before it.
CREATE TABLE leg_record (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  next_ordinal BIGINT NOT NULL,
  record BLOB NOT NULL,
  PRIMARY KEY (job_id, next_ordinal)
);
INSERT INTO leg_record (job_id, next_ordinal, record)
SELECT job_id, next_ordinal, record FROM crawl_state;
DROP TABLE crawl_state;
