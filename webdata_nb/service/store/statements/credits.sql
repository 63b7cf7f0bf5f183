-- name: lock_account
-- Changes nothing: it makes whoever else would change this account's credits wait.
UPDATE account SET lines = lines WHERE id = :id RETURNING *;

-- name: account
SELECT * FROM account WHERE id = :id;

-- name: set_balance
UPDATE account SET monthly_left = :monthly_left, topup_left = :topup_left,
  period_start = :period_start, lines = :lines
WHERE id = :id;

-- name: add_line
INSERT INTO ledger
  (account_id, line, at, kind, monthly, topup, hold_id, platform, operation, units, credits)
VALUES (:account_id, :line, :at, :kind, :monthly, :topup, :hold_id, :platform, :operation,
  :units, :credits);

-- name: add_hold
INSERT INTO hold (id, account_id, monthly, topup, period_start, until)
VALUES (:id, :account_id, :monthly, :topup, :period_start, :until);

-- name: end_hold
-- Only one of those who end a job or a call finds its hold.
DELETE FROM hold WHERE id = :id RETURNING *;

-- name: dead_holds
-- Calls whose process died: their time is over.
SELECT id FROM hold WHERE account_id = :account_id AND until < :now;

-- name: dead_accounts
-- Who has such calls.
SELECT DISTINCT account_id FROM hold WHERE until < :now;

-- name: void_calls
-- With the data directory's lock held no other process lives: its calls are over at once.
UPDATE hold SET until = 0 WHERE until IS NOT NULL;

-- name: active
-- Jobs and calls under way, and the credits that they hold; calls past their time count no more.
SELECT COUNT(*) AS active, COALESCE(SUM(monthly + topup), 0) AS reserved FROM hold
WHERE account_id = :account_id AND (until IS NULL OR until >= :now);

-- name: charged_rows
-- What the visible rows of a job are charged for, by operations.
SELECT charged, COUNT(*) AS n FROM entry
WHERE job_id = :job_id AND position IS NOT NULL AND success GROUP BY charged;

-- name: set_job_credits
-- What a job did cost, in the transaction that settles it.
UPDATE job SET credits = :credits WHERE id = :id;

-- name: used
-- What was charged since a moment, by operation.
SELECT platform, operation, SUM(units) AS units, SUM(credits) AS credits FROM ledger
WHERE account_id = :account_id AND kind = 'charge' AND at >= :since
GROUP BY platform, operation ORDER BY platform, operation;

-- name: ledger
-- An account's ledger in its order; its sums are the balance.
SELECT * FROM ledger WHERE account_id = :account_id ORDER BY line;
