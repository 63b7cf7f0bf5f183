
-- What an account may use: no `monthly`, no `concurrency` means without limit. Its credits are the
-- sum of its ledger; periods are months counted from `created_at`.
ALTER TABLE account ADD COLUMN plan TEXT NOT NULL DEFAULT 'unlimited';
ALTER TABLE account ADD COLUMN monthly BIGINT;
ALTER TABLE account ADD COLUMN concurrency BIGINT;
ALTER TABLE account ADD COLUMN monthly_left BIGINT NOT NULL DEFAULT 0;
ALTER TABLE account ADD COLUMN topup_left BIGINT NOT NULL DEFAULT 0;
ALTER TABLE account ADD COLUMN period_start DOUBLE PRECISION NOT NULL DEFAULT 0;
ALTER TABLE account ADD COLUMN lines BIGINT NOT NULL DEFAULT 0;

CREATE UNIQUE INDEX account_name ON account (name);

-- One row for each job or call that is under way: it counts as active, and holds credits.
-- A call that died with its process ends at `until`; a job's hold ends with the job.
CREATE TABLE hold (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  monthly BIGINT NOT NULL,
  topup BIGINT NOT NULL,
  period_start DOUBLE PRECISION NOT NULL,
  until DOUBLE PRECISION
);

CREATE INDEX hold_owner ON hold (account_id);

INSERT INTO hold (id, account_id, monthly, topup, period_start)
SELECT id, account_id, 0, 0, 0 FROM job WHERE state IN ('pending', 'running');

-- Every change of a balance, and every charge; never changed, never deleted.
CREATE TABLE ledger (
  account_id TEXT NOT NULL REFERENCES account (id),
  line BIGINT NOT NULL,
  at DOUBLE PRECISION NOT NULL,
  kind TEXT NOT NULL,
  monthly BIGINT NOT NULL,
  topup BIGINT NOT NULL,
  hold_id TEXT,
  platform TEXT,
  operation TEXT,
  units BIGINT,
  credits BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (account_id, line)
);

CREATE INDEX ledger_charges ON ledger (account_id, at) WHERE kind = 'charge';

-- The operations that a row is charged for once it is visible, joined by commas.
ALTER TABLE entry ADD COLUMN charged TEXT NOT NULL DEFAULT '';
