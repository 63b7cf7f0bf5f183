-- Counts follow the receipt within each transaction: a status poll reads ten rows, not 300,000.
CREATE TABLE receipt_count (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  outcome TEXT NOT NULL,
  n BIGINT NOT NULL,
  PRIMARY KEY (job_id, outcome)
);

INSERT INTO receipt_count (job_id, outcome, n)
SELECT job_id, outcome, COUNT(*) FROM receipt GROUP BY job_id, outcome;

-- By URL within an outcome: its first examples and its pages need no sorting.
DROP INDEX receipt_outcome;
CREATE INDEX receipt_outcome ON receipt (job_id, outcome, url);
