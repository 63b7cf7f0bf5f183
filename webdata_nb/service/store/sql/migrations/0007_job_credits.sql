-- What is held for a job while it may still cost something, and what it did cost in the end.
-- Without a limit nothing is held; of jobs from before this nobody knows.
ALTER TABLE job ADD COLUMN reserved BIGINT;
ALTER TABLE job ADD COLUMN unlimited BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE job ADD COLUMN credits BIGINT;
