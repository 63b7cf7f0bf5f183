-- Values of the whole store, such as the text that tells whether a process has the right key.
CREATE TABLE setting (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
);
