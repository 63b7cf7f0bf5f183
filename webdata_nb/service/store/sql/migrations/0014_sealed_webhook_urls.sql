-- Which parts of a request are sealed: 1 all secrets but the webhook's URL, 2 that as well. Rows of 1
-- are sealed anew when the store is opened, since it takes the key.
ALTER TABLE job ADD COLUMN sealing BIGINT NOT NULL DEFAULT 1;
CREATE INDEX job_sealing ON job (id) WHERE sealing < 2;
