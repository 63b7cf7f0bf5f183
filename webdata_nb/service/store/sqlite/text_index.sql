CREATE TABLE index_cursor (
  job_id TEXT PRIMARY KEY, account_id TEXT NOT NULL, position INTEGER NOT NULL
);
CREATE INDEX index_cursor_account ON index_cursor (account_id);
CREATE TABLE indexed_page (
  id INTEGER PRIMARY KEY, account_id TEXT NOT NULL, job_id TEXT NOT NULL, url TEXT NOT NULL,
  origin TEXT NOT NULL, title TEXT NOT NULL, text BLOB NOT NULL
);
CREATE INDEX indexed_page_job ON indexed_page (job_id);
CREATE UNIQUE INDEX indexed_page_url ON indexed_page (account_id, url);
CREATE INDEX indexed_page_site ON indexed_page (account_id, origin);
CREATE TABLE unreachable_site (
  account_id TEXT, origin TEXT, PRIMARY KEY (account_id, origin)
) WITHOUT ROWID;
-- How many pages were deleted since their words were merged out of the index.
CREATE TABLE index_state (deleted INTEGER NOT NULL);
INSERT INTO index_state VALUES (0);
CREATE VIEW page_source AS SELECT id, title, decompressed(text) AS text FROM indexed_page;
CREATE VIRTUAL TABLE page_text USING fts5 (
  title, text, content = 'page_source', content_rowid = 'id',
  tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TRIGGER page_added AFTER INSERT ON indexed_page BEGIN
  INSERT INTO page_text (rowid, title, text) VALUES (new.id, new.title, decompressed(new.text));
END;
CREATE TRIGGER page_deleted AFTER DELETE ON indexed_page BEGIN
  INSERT INTO page_text (page_text, rowid, title, text)
  VALUES ('delete', old.id, old.title, decompressed(old.text));
  UPDATE index_state SET deleted = deleted + 1;
END;
