-- name: wrong_published
-- Jobs whose count of visible rows differs from the rows; expired rows may be deleted.
SELECT job.id, job.published AS counted, COUNT(entry.position) AS found,
  COALESCE(MAX(entry.position), -1) AS last_position
FROM job LEFT JOIN entry ON entry.job_id = job.id AND entry.position IS NOT NULL
WHERE job.expired_at IS NULL
GROUP BY job.id
HAVING COUNT(entry.position) <> job.published
  OR COALESCE(MAX(entry.position) + 1, 0) <> job.published
ORDER BY job.id
LIMIT :limit;

-- name: wrong_receipts
-- Receipts whose counts differ from their entries.
WITH found AS (
  SELECT job_id, outcome, COUNT(*) AS n FROM receipt GROUP BY job_id, outcome
  UNION ALL
  SELECT job_id, each.key, SUM(each.value) FROM receipt_block, json_each(counts) AS each
  GROUP BY job_id, each.key
)
SELECT counted.job_id AS id, counted.outcome, counted.n AS counted,
  COALESCE(SUM(found.n), 0) AS found
FROM receipt_count AS counted
JOIN job ON job.id = counted.job_id AND job.expired_at IS NULL
LEFT JOIN found ON found.job_id = counted.job_id AND found.outcome = counted.outcome
GROUP BY counted.job_id, counted.outcome, counted.n
HAVING COALESCE(SUM(found.n), 0) <> counted.n
ORDER BY counted.job_id, counted.outcome
LIMIT :limit;

-- name: wrong_receipts on postgresql
WITH found AS (
  SELECT job_id, outcome, COUNT(*) AS n FROM receipt GROUP BY job_id, outcome
  UNION ALL
  SELECT job_id, each.key, SUM(each.value::bigint) FROM receipt_block, json_each_text(counts::json) AS each
  GROUP BY job_id, each.key
)
SELECT counted.job_id AS id, counted.outcome, counted.n AS counted,
  COALESCE(SUM(found.n), 0) AS found
FROM receipt_count AS counted
JOIN job ON job.id = counted.job_id AND job.expired_at IS NULL
LEFT JOIN found ON found.job_id = counted.job_id AND found.outcome = counted.outcome
GROUP BY counted.job_id, counted.outcome, counted.n
HAVING COALESCE(SUM(found.n), 0) <> counted.n
ORDER BY counted.job_id, counted.outcome
LIMIT :limit;

-- name: wrong_balances
-- Accounts whose balance or number of lines differs from their ledger.
SELECT account.name AS id, account.monthly_left, account.topup_left, account.lines,
  COALESCE(SUM(ledger.monthly), 0) AS monthly, COALESCE(SUM(ledger.topup), 0) AS topup,
  COUNT(ledger.line) AS found
FROM account LEFT JOIN ledger ON ledger.account_id = account.id
GROUP BY account.id, account.name, account.monthly_left, account.topup_left, account.lines
HAVING COALESCE(SUM(ledger.monthly), 0) <> account.monthly_left
  OR COALESCE(SUM(ledger.topup), 0) <> account.topup_left
  OR COUNT(ledger.line) <> account.lines
ORDER BY account.name
LIMIT :limit;

-- name: wrong_credits
-- Ended jobs whose credits differ from the charges in the ledger.
SELECT job.id, job.credits AS counted, COALESCE(charged.credits, 0) AS found
FROM job LEFT JOIN (
  SELECT hold_id, SUM(credits) AS credits FROM ledger WHERE kind = 'charge' GROUP BY hold_id
) AS charged ON charged.hold_id = job.id
WHERE job.credits IS NOT NULL AND job.credits <> COALESCE(charged.credits, 0)
ORDER BY job.id
LIMIT :limit;

-- name: wrong_usage
-- Accounts whose counted credits differ from the charges in the ledger.
SELECT charged.account_id AS id, COALESCE(counted.credits, 0) AS counted, charged.credits AS found
FROM (
  SELECT account_id, SUM(credits) AS credits FROM ledger WHERE kind = 'charge' GROUP BY account_id
) AS charged
LEFT JOIN (
  SELECT account_id, SUM(amount) AS credits FROM usage WHERE fact = 'credits' GROUP BY account_id
) AS counted ON counted.account_id = charged.account_id
WHERE COALESCE(counted.credits, 0) <> charged.credits
ORDER BY charged.account_id
LIMIT :limit;

-- name: wrong_reservations
-- Active jobs without a reservation, and reservations of jobs that are over.
SELECT job.id, job.state AS counted, 'no hold' AS found FROM job
WHERE job.state IN ('pending', 'running') AND NOT EXISTS (SELECT 1 FROM hold WHERE hold.id = job.id)
UNION ALL
SELECT hold.id, 'hold', 'no job under way' FROM hold
WHERE hold.until IS NULL AND NOT EXISTS (
  SELECT 1 FROM job WHERE job.id = hold.id AND job.state IN ('pending', 'running')
)
LIMIT :limit;

-- name: missing_contents
-- Entries whose content is not stored, or neither in the database nor in a segment.
SELECT entry.job_id, entry.ordinal FROM entry LEFT JOIN content ON content.id = entry.content_id
WHERE entry.content_id IS NOT NULL
  AND (content.id IS NULL OR (content.body IS NULL AND content.segment IS NULL))
ORDER BY entry.job_id, entry.ordinal
LIMIT :limit;

-- name: unused_contents
SELECT id FROM content WHERE NOT EXISTS (SELECT 1 FROM entry WHERE entry.content_id = content.id)
ORDER BY id
LIMIT :limit;
