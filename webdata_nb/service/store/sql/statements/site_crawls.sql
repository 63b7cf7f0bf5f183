-- name: add_site_crawl
INSERT INTO site_crawl (id, account_id, created_at) VALUES (:id, :account_id, :now);

-- name: join_site_crawl
-- In the transaction that adds the job.
UPDATE job SET site_crawl_id = :site_crawl_id, site_number = :site_number WHERE id = :id;

-- name: site_crawl
SELECT * FROM site_crawl WHERE id = :id AND account_id = :account_id;

-- name: jobs_of_site_crawl
SELECT * FROM job WHERE site_crawl_id = :id ORDER BY site_number;

-- name: handed_over_count
SELECT COUNT(*) AS n FROM handed_over WHERE site_crawl_id = :id;

-- name: handover
-- What a job of a site crawl has to know of the others: their start pages, and whether they may
-- still hand anything over.
SELECT other.subject, site_crawl.closed_at FROM job
JOIN site_crawl ON site_crawl.id = job.site_crawl_id
JOIN job AS other ON other.site_crawl_id = job.site_crawl_id AND other.id <> job.id
WHERE job.id = :job_id
ORDER BY other.site_number;

-- name: taken_urls
-- The URLs that a job took, by the turn in which it did.
SELECT handed_over.turn, handed_over.url FROM job
JOIN handed_over ON handed_over.site_crawl_id = job.site_crawl_id
  AND handed_over.site_number = job.site_number
WHERE job.id = :job_id AND handed_over.turn IS NOT NULL
ORDER BY handed_over.turn, handed_over.url;

-- name: park
-- Instead of `end_leg`: the job waits until no job of its site crawl is active.
UPDATE job SET settled_rows = published, settled_credits = settled_credits + :credits,
  reserved = :reserved, attempts_since_progress = 0,
  state = 'pending', worker = NULL, lease_until = NULL, queued_at = :now, parked = TRUE
WHERE id = :id AND worker = :worker AND attempt = :attempt AND state = 'running'
RETURNING state;

-- name: idle_site_crawls
-- Site crawls of which no job is active: each waits, or has ended.
SELECT id FROM site_crawl
WHERE closed_at IS NULL AND NOT EXISTS (
  SELECT 1 FROM job
  WHERE job.site_crawl_id = site_crawl.id AND job.state IN ('pending', 'running') AND NOT job.parked
)
ORDER BY id;

-- name: collect_handed_over
-- A slice of the URLs that a job handed over, from its receipt. A URL that several jobs handed over is
-- one.
INSERT INTO handed_over (site_crawl_id, url, site_number)
SELECT sender.site_crawl_id, receipt.url, receiver.site_number
FROM job AS sender
JOIN receipt ON receipt.job_id = sender.id AND receipt.outcome = 'handed_over'
JOIN job AS receiver ON receiver.site_crawl_id = sender.site_crawl_id
  AND receiver.subject = receipt.detail
WHERE sender.id = :job_id AND NOT EXISTS (
  SELECT 1 FROM handed_over AS earlier
  WHERE earlier.site_crawl_id = sender.site_crawl_id AND earlier.url = receipt.url
)
ORDER BY receipt.url LIMIT :limit
ON CONFLICT (site_crawl_id, url) DO NOTHING;

-- name: lock_site_crawl
-- Of two processes that find it idle, the second sees what the first one did.
SELECT id FROM site_crawl WHERE id = :id AND closed_at IS NULL
-- on postgresql: FOR NO KEY UPDATE
;

-- name: active_jobs_of_site_crawl
SELECT COUNT(*) AS n FROM job
WHERE site_crawl_id = :id AND state IN ('pending', 'running') AND NOT parked;

-- name: parked_jobs_of_site_crawl
SELECT id, site_number, site_turns FROM job
WHERE site_crawl_id = :id AND state = 'pending' AND parked ORDER BY site_number;

-- name: take_handed_over
-- The first URLs, in their order, that the receiving job has not met itself.
UPDATE handed_over SET turn = :turn
WHERE site_crawl_id = :site_crawl_id AND url IN (
  SELECT waiting.url FROM handed_over AS waiting
  WHERE waiting.site_crawl_id = :site_crawl_id AND waiting.site_number = :site_number
    AND waiting.turn IS NULL AND NOT EXISTS (
      SELECT 1 FROM receipt WHERE receipt.job_id = :job_id AND receipt.url = waiting.url
    )
  ORDER BY waiting.url LIMIT :limit
);

-- name: wake_job
-- It has URLs to take.
UPDATE job SET parked = FALSE, site_turns = site_turns + 1, queued_at = :now
WHERE id = :id AND state = 'pending' AND parked;

-- name: close_site_crawl
UPDATE site_crawl SET closed_at = :now WHERE id = :id;

-- name: wake_parked_jobs
-- They end, because nothing can be handed over to them any more.
UPDATE job SET parked = FALSE, queued_at = :now
WHERE site_crawl_id = :id AND state = 'pending' AND parked;

-- name: delete_site_crawls
-- Whose jobs are all deleted.
DELETE FROM site_crawl WHERE closed_at IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM job WHERE job.site_crawl_id = site_crawl.id
);
