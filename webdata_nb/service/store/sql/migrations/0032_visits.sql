-- What belongs to the visit of a page alone, as JSON: the validators of its reply, which a later crawl
-- sends to ask whether the page has changed, and whether this crawl took the page from an earlier one.
-- Entries of earlier releases have none.
ALTER TABLE entry ADD COLUMN visit TEXT;
