-- name: lock_account
-- Changes nothing, but makes other changes of this account's credits wait.
UPDATE account SET lines = lines WHERE id = :id RETURNING *;

-- name: lock_account_of_job
UPDATE account SET lines = lines WHERE id = (SELECT account_id FROM job WHERE id = :id) RETURNING *;

-- name: account
SELECT * FROM account WHERE id = :id;

-- name: set_balance
UPDATE account SET monthly_left = :monthly_left, topup_left = :topup_left,
  period_start = :period_start, lines = :lines
WHERE id = :id;

-- name: add_ledger_line
INSERT INTO ledger
  (account_id, line, at, kind, monthly, topup, hold_id, platform, operation, units, credits)
VALUES (:account_id, :line, :at, :kind, :monthly, :topup, :hold_id, :platform, :operation,
  :units, :credits);

-- name: add_reservation
INSERT INTO hold (id, account_id, monthly, topup, period_start, until, key_id)
VALUES (:id, :account_id, :monthly, :topup, :period_start, :until, :key_id);

-- name: end_reservation
-- Of several transactions that end a job or a call only one finds its reservation.
DELETE FROM hold WHERE id = :id RETURNING *;

-- name: expired_reservations
-- Calls past their time: their process has died.
SELECT id FROM hold WHERE account_id = :account_id AND until < :now;

-- name: accounts_with_expired_reservations
-- Accounts with calls past their time.
SELECT DISTINCT account_id FROM hold WHERE until < :now;

-- name: expire_calls
-- Only for a process that is alone on the store: all open calls are of dead processes.
UPDATE hold SET until = 0 WHERE until IS NOT NULL;

-- name: active_reservations
-- Active jobs and calls, and their credits; calls past their time do not count.
SELECT COUNT(*) AS active, COALESCE(SUM(monthly + topup), 0) AS reserved FROM hold
WHERE account_id = :account_id AND (until IS NULL OR until >= :now);

-- name: charged_rows
-- The visible successful rows of a job and their bytes, by the operations to charge for; without those
-- of checkpoints that have ended.
SELECT charged, COUNT(*) AS n, SUM(
  COALESCE(LENGTH(page), 0) + LENGTH(journal) + COALESCE(LENGTH(body), 0)
) AS bytes
FROM entry LEFT JOIN content ON content.id = entry.content_id
WHERE job_id = :job_id AND position >= (SELECT settled_rows FROM job WHERE id = :job_id) AND success
GROUP BY charged;

-- name: add_usage
INSERT INTO usage (account_id, day, key_id, fact, kind, label, amount, last_at)
SELECT new.account_id, :day, new.key_id, new.fact, new.kind, new.label, new.amount, :now
FROM rows_of(
  :rows, account_id TEXT, key_id TEXT, fact TEXT, kind TEXT, label TEXT, amount BIGINT
) AS new
WHERE TRUE
ON CONFLICT (account_id, day, key_id, fact, kind, label)
DO UPDATE SET amount = usage.amount + excluded.amount, last_at = excluded.last_at;

-- name: usage_totals
-- Over all accounts, in days from `since` and before `before`.
SELECT fact, kind, label, SUM(amount) AS amount FROM usage
WHERE day >= :since AND day < :before GROUP BY fact, kind, label;

-- name: set_job_credits
-- What the job cost, in the transaction that settles it.
UPDATE job SET credits = :credits WHERE id = :id;

-- name: usage_by_operation
-- Charges since a time, by operation.
SELECT platform, operation, SUM(units) AS units, SUM(credits) AS credits FROM ledger
WHERE account_id = :account_id AND kind = 'charge' AND at >= :since
GROUP BY platform, operation ORDER BY platform, operation;

-- name: ledger
-- An account's ledger in order; its sums are the balance.
SELECT * FROM ledger WHERE account_id = :account_id ORDER BY line;

-- name: reservations
-- All reservations of an account, of jobs and of calls.
SELECT * FROM hold WHERE account_id = :account_id ORDER BY id;
