-- The crawls of several sites that one call started. Each is a job of its own; a link to the site of
-- another one is handed over to it.
CREATE TABLE site_crawl (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  created_at DOUBLE PRECISION NOT NULL,
  -- When no URL could be handed over any more.
  closed_at DOUBLE PRECISION
);
CREATE INDEX site_crawl_open ON site_crawl (id) WHERE closed_at IS NULL;

-- `site_turns` counts the times at which the job took URLs. A parked job is pending, but not claimed:
-- it waits until no job of the site crawl is active.
ALTER TABLE job ADD COLUMN site_crawl_id TEXT;
ALTER TABLE job ADD COLUMN site_number BIGINT;
ALTER TABLE job ADD COLUMN site_turns BIGINT NOT NULL DEFAULT 0;
ALTER TABLE job ADD COLUMN parked BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX job_site_crawl ON job (site_crawl_id, site_number) WHERE site_crawl_id IS NOT NULL;

-- `site_number` is that of the job that receives the URL, and `turn` the turn in which it took it.
CREATE TABLE handed_over (
  site_crawl_id TEXT NOT NULL REFERENCES site_crawl (id) ON DELETE CASCADE,
  url TEXT NOT NULL,
  site_number BIGINT NOT NULL,
  turn BIGINT,
  PRIMARY KEY (site_crawl_id, url)
);
CREATE INDEX handed_over_turn ON handed_over (site_crawl_id, site_number, turn);
