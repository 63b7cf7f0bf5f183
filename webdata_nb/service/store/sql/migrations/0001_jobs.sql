-- Accounts own everything; a key opens one account.
CREATE TABLE account (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  created_at DOUBLE PRECISION NOT NULL
);

CREATE TABLE api_key (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  name TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,
  created_at DOUBLE PRECISION NOT NULL,
  revoked_at DOUBLE PRECISION
);

-- A job is its own queue entry: pending, or running under a lease that may run out.
CREATE TABLE job (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  kind TEXT NOT NULL,
  state TEXT NOT NULL,
  subject TEXT NOT NULL,
  request TEXT NOT NULL,
  context TEXT NOT NULL,
  created_at DOUBLE PRECISION NOT NULL,
  started_at DOUBLE PRECISION,
  finished_at DOUBLE PRECISION,
  worker TEXT,
  lease_until DOUBLE PRECISION,
  attempt BIGINT NOT NULL DEFAULT 0,
  total BIGINT NOT NULL DEFAULT 0,
  completed BIGINT NOT NULL DEFAULT 0,
  published BIGINT NOT NULL DEFAULT 0,
  error TEXT,
  outcome TEXT NOT NULL DEFAULT '{}'
);

CREATE INDEX job_queue ON job (created_at, id) WHERE state IN ('pending', 'running');
CREATE INDEX job_owner ON job (account_id, created_at, id);

-- The journal: one entry a fetched page or ranked result, in the order the engine decided.
-- `position` is set once clients may see the row, and never changes afterwards.
CREATE TABLE entry (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  ordinal BIGINT NOT NULL,
  position BIGINT,
  url TEXT NOT NULL,
  success BOOLEAN NOT NULL,
  page BLOB,
  journal BLOB NOT NULL,
  PRIMARY KEY (job_id, ordinal)
);

CREATE UNIQUE INDEX entry_position ON entry (job_id, position) WHERE position IS NOT NULL;

-- The receipt: every URL seen, once, with what became of it.
CREATE TABLE receipt (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  url TEXT NOT NULL,
  outcome TEXT NOT NULL,
  detail TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (job_id, url)
);

CREATE INDEX receipt_outcome ON receipt (job_id, outcome);

-- What a job must see again after a restart exactly as it saw it first: robots files.
CREATE TABLE snapshot (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (job_id, name)
);

-- First answers to starts, replayed for a day under the same key.
CREATE TABLE idempotency (
  account_id TEXT NOT NULL REFERENCES account (id),
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  job_id TEXT NOT NULL,
  created_at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (account_id, key)
);
