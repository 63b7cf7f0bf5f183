-- The processes that serve this store now. Every few seconds each of them writes that it is alive.
CREATE
-- on postgresql: UNLOGGED
TABLE replica (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  slots BIGINT NOT NULL,
  started_at DOUBLE PRECISION NOT NULL,
  seen_at DOUBLE PRECISION NOT NULL
);
