
-- Secrets of request and context, sealed; NULL where a row is older than this column.
ALTER TABLE job ADD COLUMN sealed TEXT;
