-- What an operator sees, of all accounts. NULL for a filter means without it.

-- name: operator_jobs
-- Newest first.
SELECT job.id, account.name AS account, job.key_id, job.kind, job.state, job.subject, job.created_at,
  job.started_at, job.finished_at, job.attempt, job.published, job.credits, job.error,
  replica.name AS replica
FROM job
JOIN account ON account.id = job.account_id
LEFT JOIN replica ON replica.id = job.worker
WHERE (CAST(:account_id AS TEXT) IS NULL OR job.account_id = :account_id)
  AND (CAST(:state AS TEXT) IS NULL OR job.state = :state)
  AND (CAST(:kind AS TEXT) IS NULL OR job.kind = :kind)
  AND job.created_at >= :since
ORDER BY job.created_at DESC, job.id DESC LIMIT :limit;

-- name: operator_job
SELECT job.id, job.account_id, account.name AS account, job.key_id, job.kind, job.state, job.subject,
  job.created_at, job.started_at, job.finished_at, job.attempt, job.attempts_since_progress,
  job.published, job.total, job.credits, job.reserved, job.error, job.lease_until, job.outcome,
  job.expired_at, replica.name AS replica
FROM job
JOIN account ON account.id = job.account_id
LEFT JOIN replica ON replica.id = job.worker
WHERE job.id = :id;

-- name: operator_job_deliveries
SELECT event, endpoint, state, attempts, status, error FROM delivery
WHERE job_id = :id ORDER BY created_at, id LIMIT :limit;

-- name: operator_usage
-- Sums by what `by_...` asks for.
SELECT
  CASE WHEN :by_account = 1 THEN COALESCE(account.name, '') ELSE '' END AS account,
  CASE WHEN :by_key = 1 THEN usage.key_id ELSE '' END AS key_id,
  CASE WHEN :by_day = 1 THEN usage.day ELSE '' END AS day,
  CASE WHEN :by_operation = 1 AND usage.fact IN ('units', 'credits')
    THEN usage.kind || '/' || usage.label
    WHEN :by_operation = 1 THEN usage.kind ELSE '' END AS operation,
  SUM(CASE WHEN usage.fact = 'jobs' THEN usage.amount ELSE 0 END) AS jobs,
  SUM(CASE WHEN usage.fact = 'jobs' AND usage.label = 'failed' THEN usage.amount ELSE 0 END) AS failed,
  SUM(CASE WHEN usage.fact = 'rows' THEN usage.amount ELSE 0 END) AS rows_,
  SUM(CASE WHEN usage.fact = 'bytes' THEN usage.amount ELSE 0 END) AS bytes,
  SUM(CASE WHEN usage.fact = 'units' THEN usage.amount ELSE 0 END) AS units,
  SUM(CASE WHEN usage.fact = 'credits' THEN usage.amount ELSE 0 END) AS credits
FROM usage LEFT JOIN account ON account.id = usage.account_id
WHERE usage.fact IN ('jobs', 'rows', 'bytes', 'units', 'credits')
  AND (CAST(:account_id AS TEXT) IS NULL OR usage.account_id = :account_id)
  AND usage.day >= :since_day
GROUP BY 1, 2, 3, 4 ORDER BY 3, 1, 2, 4 LIMIT :limit;

-- name: operator_refusals
-- Who was refused, how often and why; the account and the key are empty where a request had none.
SELECT COALESCE(account.name, '') AS account, usage.key_id AS key, usage.label AS status,
  usage.kind AS reason, SUM(usage.amount) AS requests, MAX(usage.last_at) AS last
FROM usage LEFT JOIN account ON account.id = usage.account_id
WHERE usage.fact = 'refused' AND usage.day >= :since_day
  AND (CAST(:account_id AS TEXT) IS NULL OR usage.account_id = :account_id)
GROUP BY account.name, usage.key_id, usage.label, usage.kind
ORDER BY SUM(usage.amount) DESC, usage.key_id LIMIT :limit;

-- name: operator_outcomes
-- What became of the URLs of ended jobs.
SELECT COALESCE(account.name, '') AS account, usage.kind, usage.label AS outcome,
  SUM(usage.amount) AS urls, MAX(usage.last_at) AS last
FROM usage LEFT JOIN account ON account.id = usage.account_id
WHERE usage.fact = 'urls' AND usage.day >= :since_day
  AND (CAST(:account_id AS TEXT) IS NULL OR usage.account_id = :account_id)
GROUP BY account.name, usage.kind, usage.label
ORDER BY account.name, usage.kind, SUM(usage.amount) DESC LIMIT :limit;

-- name: operator_providers
-- How search providers answered, by status.
SELECT kind AS provider, label AS status, SUM(amount) AS attempts, MAX(last_at) AS last_at
FROM usage WHERE fact = 'attempts' AND day >= :since_day
  AND (CAST(:account_id AS TEXT) IS NULL OR account_id = :account_id)
GROUP BY kind, label ORDER BY kind, label;

-- name: operator_pauses
-- Providers that are paused now, which a service with one process knows alone.
SELECT '' AS key, 0.0 AS open_until, '' AS status WHERE 1 = 0;

-- name: operator_pauses on postgresql
SELECT key, GREATEST(open_until, paused_until) AS open_until, status FROM pacing
WHERE key LIKE 'provider:%' AND GREATEST(open_until, paused_until) > :now;

-- name: operator_webhooks
-- Deliveries by endpoint, those that fail first.
SELECT account.name AS account, delivery.endpoint,
  SUM(CASE WHEN state = 'pending' THEN 1 ELSE 0 END) AS pending,
  SUM(CASE WHEN state = 'failed' THEN 1 ELSE 0 END) AS failed,
  SUM(CASE WHEN state = 'delivered' THEN 1 ELSE 0 END) AS delivered,
  SUM(attempts) AS attempts,
  MIN(CASE WHEN state = 'pending' THEN delivery.created_at END) AS oldest_pending_at,
  MAX(CASE WHEN state <> 'delivered' THEN error END) AS error
FROM delivery JOIN account ON account.id = delivery.account_id
WHERE delivery.created_at >= :since
  AND (CAST(:account_id AS TEXT) IS NULL OR delivery.account_id = :account_id)
GROUP BY account.name, delivery.endpoint
ORDER BY 4 DESC, 3 DESC, 1, 2 LIMIT :limit;

-- name: operator_replicas
SELECT name, kind, version, slots, started_at, seen_at, (
  SELECT COUNT(*) FROM job WHERE job.worker = replica.id AND job.state = 'running'
) AS running
FROM replica ORDER BY started_at, id;

-- name: operator_crawls
-- Crawls that began lately, for the sites that they are of.
SELECT account.name AS account, job.subject, job.state, job.published, job.started_at, job.finished_at, (
  SELECT COALESCE(SUM(n), 0) FROM receipt_count AS c WHERE c.job_id = job.id AND c.outcome LIKE 'failed:%'
) AS failed
FROM job JOIN account ON account.id = job.account_id
WHERE job.kind = 'crawl' AND job.started_at IS NOT NULL AND job.created_at >= :since
  AND (CAST(:account_id AS TEXT) IS NULL OR job.account_id = :account_id)
ORDER BY job.created_at DESC LIMIT :most;

-- name: operator_failed_jobs
SELECT account.name AS account, job.id, job.kind, job.error, job.finished_at
FROM job JOIN account ON account.id = job.account_id
WHERE job.state = 'failed' AND job.finished_at >= :since
  AND (CAST(:account_id AS TEXT) IS NULL OR job.account_id = :account_id)
ORDER BY job.finished_at DESC LIMIT :most;

-- name: operator_sizes
-- What is stored of each account, without the overhead of tables and indexes.
SELECT account.name AS account, stored.kind, SUM(stored.n) AS n, SUM(stored.bytes) AS bytes FROM (
  SELECT job.account_id, job.kind || ' rows' AS kind, COUNT(*) AS n,
    SUM(LENGTH(entry.url) + COALESCE(LENGTH(entry.page), 0) + LENGTH(entry.journal)) AS bytes
  FROM entry JOIN job ON job.id = entry.job_id GROUP BY job.account_id, job.kind
  UNION ALL
  SELECT account_id, 'page contents', COUNT(body), SUM(COALESCE(LENGTH(body), 0)) FROM content
  GROUP BY account_id
  UNION ALL
  SELECT account_id, 'page contents in files', COUNT(*), NULL FROM content WHERE segment IS NOT NULL
  GROUP BY account_id
  UNION ALL
  SELECT job.account_id, 'receipts', COUNT(*), SUM(LENGTH(receipt.url) + LENGTH(receipt.detail))
  FROM receipt JOIN job ON job.id = receipt.job_id GROUP BY job.account_id
  UNION ALL
  SELECT job.account_id, 'receipts', COUNT(*), SUM(LENGTH(receipt_block.body))
  FROM receipt_block JOIN job ON job.id = receipt_block.job_id GROUP BY job.account_id
  UNION ALL
  SELECT job.account_id, 'robots files', COUNT(*), SUM(LENGTH(snapshot.body))
  FROM snapshot JOIN job ON job.id = snapshot.job_id GROUP BY job.account_id
  UNION ALL
  SELECT account_id, 'webhooks', COUNT(*), SUM(LENGTH(body)) FROM delivery GROUP BY account_id
  UNION ALL
  SELECT account_id, 'job records', COUNT(*), SUM(LENGTH(request) + LENGTH(outcome) + LENGTH(sealed))
  FROM job GROUP BY account_id
  UNION ALL
  SELECT account_id, 'ledger lines', COUNT(*), NULL FROM ledger GROUP BY account_id
  -- on postgresql: UNION ALL SELECT account_id, 'search index', COUNT(*),
  -- on postgresql:   SUM(pg_column_size(hashes) + pg_column_size(weights) + LENGTH(url) + LENGTH(title))
  -- on postgresql: FROM indexed_page GROUP BY account_id
) AS stored JOIN account ON account.id = stored.account_id
WHERE (CAST(:account_id AS TEXT) IS NULL OR stored.account_id = :account_id) AND stored.n > 0
GROUP BY account.name, stored.kind ORDER BY account.name, stored.kind;

-- name: operator_database_size
-- The database with its indexes, and what of it is free.
SELECT page_count * page_size AS bytes, freelist_count * page_size AS free
FROM pragma_page_count(), pragma_page_size(), pragma_freelist_count();

-- name: operator_database_size on postgresql
SELECT pg_database_size(current_database()) AS bytes, NULL AS free;

-- name: oldest_pending
SELECT MIN(COALESCE(queued_at, created_at)) AS waits_since FROM job WHERE state = 'pending';
