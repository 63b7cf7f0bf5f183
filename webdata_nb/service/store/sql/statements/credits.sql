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
INSERT INTO hold (id, account_id, monthly, topup, period_start, until)
VALUES (:id, :account_id, :monthly, :topup, :period_start, :until);

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
-- The visible successful rows of a job, by the operations to charge for; without those of checkpoints that
-- have ended.
SELECT charged, COUNT(*) AS n FROM entry
WHERE job_id = :job_id AND position >= (SELECT settled_rows FROM job WHERE id = :job_id) AND success
GROUP BY charged;

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
