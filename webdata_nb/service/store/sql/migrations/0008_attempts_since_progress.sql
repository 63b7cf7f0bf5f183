-- How often a job was claimed since it last stored anything: a job that keeps ending its process
-- is given up after a few attempts.
ALTER TABLE job ADD COLUMN attempts_since_progress BIGINT NOT NULL DEFAULT 0;
