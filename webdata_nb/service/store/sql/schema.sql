-- The tables of a store, for SQLite and PostgreSQL (see `named_statements`). A release that changes
-- them raises `SCHEMA_VERSION`.

-- An account owns everything else. No `monthly`, no `concurrency` means without limit. Its credits are
-- the sum of its ledger; periods are months counted from `created_at`.
CREATE TABLE account (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  created_at DOUBLE PRECISION NOT NULL,
  plan TEXT NOT NULL DEFAULT 'unlimited',
  monthly BIGINT,
  concurrency BIGINT,
  monthly_left BIGINT NOT NULL DEFAULT 0,
  topup_left BIGINT NOT NULL DEFAULT 0,
  period_start DOUBLE PRECISION NOT NULL DEFAULT 0,
  lines BIGINT NOT NULL DEFAULT 0,
  -- Of a suspended account no key is accepted, no job runs and no webhook is sent.
  suspended_at DOUBLE PRECISION,
  -- An account that is being deleted is marked first. Once it is cleared, only its ledger is left,
  -- and its name is free.
  deleted_at DOUBLE PRECISION,
  cleared_at DOUBLE PRECISION
);

CREATE UNIQUE INDEX account_name ON account (name);
CREATE INDEX account_suspended ON account (id) WHERE suspended_at IS NOT NULL;

-- A key opens one account, for some scopes or for all but `admin`, until it ends: at its expiry, when it
-- is revoked, or some time after its rotation. `last_used_at` is about a minute behind.
CREATE TABLE api_key (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  name TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,
  created_at DOUBLE PRECISION NOT NULL,
  scopes TEXT,
  ends_at DOUBLE PRECISION,
  last_used_at DOUBLE PRECISION
);

-- A job is its own queue entry: pending, or running under a lease that may run out. A deleted job
-- belongs to no account, so that nobody reads what is left of it.
CREATE TABLE job (
  id TEXT PRIMARY KEY,
  account_id TEXT REFERENCES account (id),
  kind TEXT NOT NULL,
  state TEXT NOT NULL,
  subject TEXT NOT NULL,
  request TEXT NOT NULL,
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
  outcome TEXT NOT NULL DEFAULT '{}',
  -- Secrets of request and context, sealed.
  sealed TEXT NOT NULL,
  -- Results past their retention: marked first, so that nobody reads a job that is half cleared.
  expired_at DOUBLE PRECISION,
  cleared_at DOUBLE PRECISION,
  -- What is held for a job while it may still cost something, and what it did cost in the end.
  -- Without a limit nothing is held.
  reserved BIGINT,
  unlimited BOOLEAN NOT NULL DEFAULT FALSE,
  credits BIGINT,
  -- How often a job was claimed since it last stored anything: a job that keeps ending its process
  -- is given up after a few attempts.
  attempts_since_progress BIGINT NOT NULL DEFAULT 0,
  -- Which key of its account started a job; none in a local service.
  key_id TEXT,
  -- A long crawl has checkpoints. At each of them the job may return to the queue, behind others;
  -- the credits of its rows are charged.
  queued_at DOUBLE PRECISION,
  settled_rows BIGINT NOT NULL DEFAULT 0,
  settled_credits BIGINT NOT NULL DEFAULT 0,
  -- Whether the receipt of an ended job is in `receipt_block`.
  packed BOOLEAN NOT NULL DEFAULT FALSE,
  -- When the contents of an ended job had all been moved to segments.
  moved_at DOUBLE PRECISION,
  -- The batch of rows that was written last: each of its statements checks it.
  batch_id BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX job_queue ON job (created_at, id) WHERE state IN ('pending', 'running');
CREATE INDEX job_owner ON job (account_id, created_at, id);
CREATE INDEX job_age ON job (created_at, id);
CREATE INDEX job_ended ON job (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX job_unpacked ON job (finished_at, id) WHERE finished_at IS NOT NULL AND NOT packed;
CREATE INDEX job_to_move ON job (finished_at, id) WHERE moved_at IS NULL;

-- What visits of a page have in common, compressed: stored once for each account, or once for each
-- visit where a job sends its own headers or cookies. `id` is the hash of what `body` compresses, and
-- `size` its bytes. `segment` names the file that has it if `body` is NULL.
CREATE TABLE content (
  id BLOB PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  body BLOB,
  size BIGINT NOT NULL,
  segment TEXT
);

CREATE INDEX content_segment ON content (segment) WHERE segment IS NOT NULL;

-- Files with the contents of one account (`content.segment`): `contents` is their number in the file,
-- and `state` is writing (its file may be missing or incomplete), stored, or deleting (nothing points
-- to it, and its file is about to be deleted).
CREATE TABLE segment (
  name TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  contents BIGINT NOT NULL,
  state TEXT NOT NULL,
  created_at DOUBLE PRECISION NOT NULL
);

-- The journal: one entry a fetched page or ranked result, in the order the engine decided.
CREATE TABLE entry (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  ordinal BIGINT NOT NULL,
  -- Set once clients may see the row, and never changed afterwards.
  position BIGINT,
  url TEXT NOT NULL,
  success BOOLEAN NOT NULL,
  -- The row, or what belongs to its visit alone if the rest is in `content_id`; small rows have no
  -- content. The reference keeps a content that an entry is about to use.
  page BLOB,
  journal BLOB NOT NULL,
  -- The operations that a row is charged for once it is visible, joined by commas.
  charged TEXT NOT NULL DEFAULT '',
  content_id BLOB REFERENCES content (id),
  -- What belongs to the visit of a page alone, as JSON: the validators of its reply, which a later
  -- crawl sends to ask whether the page has changed, and whether this crawl took the page from an
  -- earlier one.
  visit TEXT,
  PRIMARY KEY (job_id, ordinal)
);

CREATE UNIQUE INDEX entry_position ON entry (job_id, position) WHERE position IS NOT NULL;
CREATE INDEX entry_content ON entry (content_id) WHERE content_id IS NOT NULL;

-- The receipt: every URL seen, once, with what became of it.
CREATE TABLE receipt (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  url TEXT NOT NULL,
  outcome TEXT NOT NULL,
  detail TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (job_id, url)
);

-- By URL within an outcome: its first examples and its pages need no sorting.
CREATE INDEX receipt_outcome ON receipt (job_id, outcome, url);

-- Counts follow the receipt within each transaction: a status poll reads ten rows, not 300,000.
CREATE TABLE receipt_count (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  outcome TEXT NOT NULL,
  n BIGINT NOT NULL,
  PRIMARY KEY (job_id, outcome)
);

-- The receipt of a job that has ended, packed: its entries by URL, compressed in blocks. Entries that
-- are not packed yet come after those of the blocks.
CREATE TABLE receipt_block (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  number BIGINT NOT NULL,
  first_url TEXT NOT NULL,
  counts TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (job_id, number)
);

-- What a job must see again after a restart exactly as it saw it first: robots files.
CREATE TABLE snapshot (
  job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (job_id, name)
);

-- The state from which a long crawl continues. It follows from the journal, which is replayed where it
-- cannot be used.
CREATE TABLE crawl_state (
  job_id TEXT PRIMARY KEY REFERENCES job (id) ON DELETE CASCADE,
  next_ordinal BIGINT NOT NULL,
  state BLOB NOT NULL
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

CREATE INDEX idempotency_age ON idempotency (created_at);

-- One row for each job or call that is under way: it counts as active, and holds credits.
-- A call that died with its process ends at `until`; a job's hold ends with the job.
CREATE TABLE hold (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  monthly BIGINT NOT NULL,
  topup BIGINT NOT NULL,
  period_start DOUBLE PRECISION NOT NULL,
  until DOUBLE PRECISION,
  -- The API key that started the job or made the call.
  key_id TEXT
);

CREATE INDEX hold_owner ON hold (account_id);

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

-- What was used and what became of it: counters that only grow, for each day in UTC. `key_id` is empty
-- without a key, and `account_id` for callers who have none. They are written in the transaction of
-- what they count; refused requests are counted in memory and written every few seconds.
--   fact      kind      label      amount
--   jobs      of a job  state      jobs that have ended
--   rows      of a job             visible rows without an error
--   bytes     of a job             bytes of these rows as they are stored
--   urls      of a job  outcome    entries of receipts
--   attempts  provider  status     questions to a search provider
--   units     platform  operation  what was charged for
--   credits   platform  operation  the charges of the ledger
--   refused   reason    status     requests that were refused
CREATE TABLE usage (
  account_id TEXT NOT NULL,
  day TEXT NOT NULL,
  key_id TEXT NOT NULL,
  fact TEXT NOT NULL,
  kind TEXT NOT NULL,
  label TEXT NOT NULL,
  amount BIGINT NOT NULL,
  last_at DOUBLE PRECISION NOT NULL,
  PRIMARY KEY (account_id, day, key_id, fact, kind, label)
);

CREATE INDEX usage_day ON usage (day);

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

-- Values of the whole store, such as the text that tells whether a process has the right key.
CREATE TABLE setting (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
);

-- The processes that serve this store now. Every few seconds each of them writes that it is alive.
CREATE
-- on postgresql: UNLOGGED
TABLE replica (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  slots BIGINT NOT NULL,
  started_at DOUBLE PRECISION NOT NULL,
  seen_at DOUBLE PRECISION NOT NULL,
  -- What it runs: serve, worker or dask; and its release.
  kind TEXT NOT NULL,
  version TEXT NOT NULL
);

-- The text index, which SQLite has in a file of its own: hashes of words and no texts. It is derived
-- from the stored rows: where no cursor is left, it is filled again.
-- on postgresql: CREATE TABLE index_cursor (
-- on postgresql:   job_id TEXT PRIMARY KEY,
-- on postgresql:   account_id TEXT NOT NULL,
-- on postgresql:   position BIGINT NOT NULL
-- on postgresql: );
-- on postgresql: CREATE INDEX index_cursor_account ON index_cursor (account_id);
-- on postgresql: CREATE TABLE indexed_page (
-- on postgresql:   id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
-- on postgresql:   account_id TEXT NOT NULL,
-- on postgresql:   job_id TEXT NOT NULL,
-- on postgresql:   url TEXT NOT NULL,
-- on postgresql:   origin TEXT NOT NULL,
-- on postgresql:   title TEXT NOT NULL,
-- on postgresql:   position BIGINT NOT NULL,
-- on postgresql:   hashes INTEGER[] NOT NULL,
-- on postgresql:   weights BYTEA NOT NULL
-- on postgresql: );
-- on postgresql: CREATE INDEX indexed_page_hashes ON indexed_page USING GIN (hashes)
-- on postgresql:   WITH (gin_pending_list_limit = 1024);
-- A hash, as a search result may have a URL of any length.
-- on postgresql: CREATE INDEX indexed_page_url ON indexed_page USING HASH (url);
-- on postgresql: CREATE INDEX indexed_page_job ON indexed_page (job_id);
-- on postgresql: CREATE INDEX indexed_page_site ON indexed_page (account_id, origin);
-- on postgresql: CREATE TABLE unreachable_site (
-- on postgresql:   account_id TEXT NOT NULL,
-- on postgresql:   origin TEXT NOT NULL,
-- on postgresql:   PRIMARY KEY (account_id, origin)
-- on postgresql: );

-- The next start, the pause and the failures of hosts and providers, which the processes of a
-- service share. A crash of the database empties these tables. SQLite has one process and none.
-- on postgresql: CREATE UNLOGGED TABLE pacing (
-- on postgresql:   key TEXT PRIMARY KEY,
-- on postgresql:   last_start DOUBLE PRECISION NOT NULL DEFAULT '-Infinity',
-- on postgresql:   interval_s DOUBLE PRECISION NOT NULL DEFAULT 0,
-- on postgresql:   count INTEGER NOT NULL DEFAULT 1,
-- on postgresql:   pause_s DOUBLE PRECISION NOT NULL DEFAULT 0,
-- on postgresql:   paused_until DOUBLE PRECISION NOT NULL DEFAULT '-Infinity',
-- on postgresql:   failures INTEGER NOT NULL DEFAULT 0,
-- on postgresql:   openings INTEGER NOT NULL DEFAULT 0,
-- on postgresql:   open_until DOUBLE PRECISION,
-- on postgresql:   status TEXT NOT NULL DEFAULT '',
-- on postgresql:   changed_at DOUBLE PRECISION NOT NULL DEFAULT '-Infinity'
-- on postgresql: ) WITH (fillfactor = 70);
-- on postgresql: CREATE INDEX pacing_changed ON pacing (changed_at);
-- on postgresql: CREATE UNLOGGED TABLE pacing_epoch (
-- on postgresql:   id BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (id),
-- on postgresql:   started_at DOUBLE PRECISION NOT NULL
-- on postgresql: );
-- on postgresql: INSERT INTO pacing_epoch (started_at) VALUES ('-Infinity');

-- How PostgreSQL stores the tables. Room for new versions of rows that change on the same page, so
-- that no index has to change with them.
-- on postgresql: ALTER TABLE job SET (fillfactor = 70);
-- on postgresql: ALTER TABLE account SET (fillfactor = 70);
-- on postgresql: ALTER TABLE receipt_count SET (fillfactor = 70);
-- on postgresql: ALTER TABLE delivery SET (fillfactor = 80);
-- Compressed already, or not compressible.
-- on postgresql: ALTER TABLE content ALTER COLUMN body SET STORAGE EXTERNAL;
-- on postgresql: ALTER TABLE receipt_block ALTER COLUMN body SET STORAGE EXTERNAL;
-- on postgresql: ALTER TABLE indexed_page ALTER COLUMN hashes SET STORAGE EXTERNAL;
-- on postgresql: ALTER TABLE indexed_page ALTER COLUMN weights SET STORAGE EXTERNAL;
-- Pages are compressed by a method that is several times faster, if the server has it.
-- on postgresql: DO $$ BEGIN ALTER TABLE entry ALTER COLUMN page SET COMPRESSION lz4;
-- on postgresql: EXCEPTION WHEN feature_not_supported THEN NULL; END $$;
