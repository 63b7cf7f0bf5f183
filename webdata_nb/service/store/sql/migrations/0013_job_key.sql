-- Which key of its account started a job; none in a local service, and not known of older jobs.
ALTER TABLE job ADD COLUMN key_id TEXT;
