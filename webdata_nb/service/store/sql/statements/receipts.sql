-- name: count_url_outcomes only on sqlite
-- Counts what `add_url_outcomes` adds next; on PostgreSQL that statement counts it.
INSERT INTO receipt_count (job_id, outcome, n)
SELECT job.id, new.outcome, COUNT(*)
FROM rows_of(:rows, url TEXT, outcome TEXT) AS new, job
WHERE job.id = :job_id AND job.batch_id = :batch_id AND NOT EXISTS (
  SELECT 1 FROM receipt WHERE receipt.job_id = :job_id AND receipt.url = new.url
)
GROUP BY job.id, new.outcome
ON CONFLICT (job_id, outcome) DO UPDATE SET n = receipt_count.n + excluded.n;

-- name: add_url_outcomes
-- The outcome of a URL is decided once.
INSERT INTO receipt (job_id, url, outcome, detail)
SELECT job.id, new.url, new.outcome, new.detail
FROM rows_of(:rows, url TEXT, outcome TEXT, detail TEXT) AS new, job
WHERE job.id = :job_id AND job.batch_id = :batch_id
ON CONFLICT (job_id, url) DO NOTHING;

-- name: add_url_outcomes on postgresql
WITH added AS (
  INSERT INTO receipt (job_id, url, outcome, detail)
  SELECT job.id, new.url, new.outcome, new.detail
  FROM rows_of(:rows, url TEXT, outcome TEXT, detail TEXT) AS new, job
  WHERE job.id = :job_id AND job.batch_id = :batch_id
  ON CONFLICT (job_id, url) DO NOTHING
  RETURNING job_id, outcome
)
INSERT INTO receipt_count (job_id, outcome, n)
SELECT job_id, outcome, COUNT(*) FROM added GROUP BY job_id, outcome
ON CONFLICT (job_id, outcome) DO UPDATE SET n = receipt_count.n + excluded.n;

-- name: receipt_counts
SELECT outcome, n FROM receipt_count WHERE job_id = :job_id ORDER BY outcome;

-- name: receipt_page
-- The receipt in the order of its URLs.
SELECT url, outcome, detail FROM receipt WHERE job_id = :job_id
ORDER BY url LIMIT :limit OFFSET :offset;

-- name: receipt_page_of_outcome
SELECT url, outcome, detail FROM receipt WHERE job_id = :job_id AND outcome = :outcome
ORDER BY url LIMIT :limit OFFSET :offset;

-- name: receipt_entry
SELECT url, outcome, detail FROM receipt WHERE job_id = :job_id AND url = :url;

-- name: receipt_blocks
-- The packed part of a receipt, in the order of its URLs, without the entries.
SELECT number, counts FROM receipt_block WHERE job_id = :job_id ORDER BY number;

-- name: receipt_block
SELECT body FROM receipt_block WHERE job_id = :job_id AND number = :number;

-- name: receipt_block_of_url
-- The only block that may have the URL.
SELECT number FROM receipt_block WHERE job_id = :job_id AND first_url <= :url
ORDER BY number DESC LIMIT 1;

-- name: unpacked_job
-- An ended job whose receipt is not packed. Its rows are not deleted meanwhile: their deletion
-- begins with a change of the job.
SELECT id FROM job
WHERE finished_at IS NOT NULL AND NOT packed AND expired_at IS NULL
ORDER BY finished_at, id LIMIT 1
-- on postgresql: FOR UPDATE SKIP LOCKED
;

-- name: mark_packed
UPDATE job SET packed = TRUE WHERE id = :job_id;

-- name: add_receipt_block
INSERT INTO receipt_block (job_id, number, first_url, counts, body)
SELECT CAST(:job_id AS TEXT), COALESCE(MAX(number) + 1, 0), :first_url, :counts, :body
FROM receipt_block WHERE job_id = :job_id;
