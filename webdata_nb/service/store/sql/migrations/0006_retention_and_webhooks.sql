-- Results past their retention: marked first, so that nobody reads a job that is half cleared.
ALTER TABLE job ADD COLUMN expired_at DOUBLE PRECISION;
ALTER TABLE job ADD COLUMN cleared_at DOUBLE PRECISION;

CREATE INDEX job_ended ON job (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX idempotency_age ON idempotency (created_at);

-- The outbox of webhooks: what is to be sent, to the byte, written in the transaction of what it
-- tells. The secret that signs it stays with the job.
CREATE TABLE delivery (
  id TEXT PRIMARY KEY,
  event_id TEXT NOT NULL,
  account_id TEXT NOT NULL REFERENCES account (id),
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  event TEXT NOT NULL,
  profile TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  body BLOB NOT NULL,
  replay BOOLEAN NOT NULL,
  state TEXT NOT NULL,
  attempts BIGINT NOT NULL DEFAULT 0,
  created_at DOUBLE PRECISION NOT NULL,
  due_at DOUBLE PRECISION NOT NULL,
  lease_until DOUBLE PRECISION NOT NULL DEFAULT 0,
  lease TEXT,
  ended_at DOUBLE PRECISION,
  status BIGINT,
  error TEXT
);

-- An event is told once; only a replay, which someone asked for, tells it again.
CREATE UNIQUE INDEX delivery_event ON delivery (event_id) WHERE NOT replay;
CREATE INDEX delivery_due ON delivery (account_id, endpoint, due_at) WHERE state = 'pending';
CREATE INDEX delivery_owner ON delivery (account_id, created_at, id);
CREATE INDEX delivery_job ON delivery (job_id);
