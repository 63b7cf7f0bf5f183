-- name: add_url_outcome
-- The outcome of a URL is decided once.
INSERT INTO receipt (job_id, url, outcome, detail)
VALUES (:job_id, :url, :outcome, :detail) ON CONFLICT (job_id, url) DO NOTHING;

-- name: count_url_outcomes
-- Adds the number of rows that `add_url_outcome` wrote, in the same transaction.
INSERT INTO receipt_count (job_id, outcome, n) VALUES (:job_id, :outcome, :n)
ON CONFLICT (job_id, outcome) DO UPDATE SET n = receipt_count.n + excluded.n;

-- name: receipt_counts
SELECT outcome, n FROM receipt_count WHERE job_id = :job_id ORDER BY outcome;

-- name: receipt_examples
SELECT url FROM receipt WHERE job_id = :job_id AND outcome = :outcome ORDER BY url LIMIT :limit;

-- name: receipt_page
-- The receipt in the order of its URLs.
SELECT url, outcome, detail FROM receipt WHERE job_id = :job_id
ORDER BY url LIMIT :limit OFFSET :offset;

-- name: receipt_page_of_outcome
SELECT url, outcome, detail FROM receipt WHERE job_id = :job_id AND outcome = :outcome
ORDER BY url LIMIT :limit OFFSET :offset;

-- name: receipt_entry
SELECT url, outcome, detail FROM receipt WHERE job_id = :job_id AND url = :url;

-- name: add_url_outcomes only on postgresql
-- New entries of the receipt, and their number by outcome; fails if one of them is stored already.
WITH added AS (
  INSERT INTO receipt (job_id, url, outcome, detail)
  SELECT :job_id, * FROM json_to_recordset(:rows::json) AS new (url text, outcome text, detail text)
)
INSERT INTO receipt_count (job_id, outcome, n)
SELECT :job_id, key, value::bigint FROM json_each_text(:counts::json)
ON CONFLICT (job_id, outcome) DO UPDATE SET n = receipt_count.n + excluded.n;
