-- name: lock_index
-- The index of an account is changed by one transaction at a time, so that a page has one text.
-- A database with a single writer needs no lock.
SELECT 1 AS locked;

-- name: lock_index on postgresql
SELECT 1 AS locked FROM pg_advisory_xact_lock(
  hashtextextended(current_schema() || ' index ' || CAST(:account_id AS TEXT), 0)
);

-- name: index_cursor
SELECT position FROM index_cursor WHERE job_id = :job_id;

-- name: index_cursors
SELECT job_id, position FROM index_cursor
WHERE CAST(:account_id AS TEXT) IS NULL OR account_id = :account_id;

-- name: set_index_cursor
INSERT INTO index_cursor (job_id, account_id, position) VALUES (:job_id, :account_id, :position)
ON CONFLICT (job_id) DO UPDATE SET position = excluded.position;

-- name: delete_index_cursor
DELETE FROM index_cursor WHERE job_id = :job_id;

-- name: keep_indexed_page
-- A page with the same text as before goes to the job that visited it last; its words stay.
UPDATE indexed_page SET job_id = :job_id
WHERE url = :url AND account_id = :account_id AND title = :title AND text = :text;

-- name: keep_indexed_page on postgresql
UPDATE indexed_page SET job_id = :job_id, position = :position
WHERE url = :url AND account_id = :account_id AND title = :title
  AND hashes = :hashes::integer[] AND weights = :weights;

-- name: delete_indexed_page
DELETE FROM indexed_page WHERE url = :url AND account_id = :account_id;

-- name: add_indexed_page
INSERT INTO indexed_page (account_id, job_id, url, origin, title, text)
VALUES (:account_id, :job_id, :url, :origin, :title, :text);

-- name: add_indexed_page on postgresql
INSERT INTO indexed_page (account_id, job_id, position, url, origin, title, hashes, weights)
VALUES (
  :account_id, :job_id, :position, :url, :origin, :title, :hashes::integer[], :weights
);

-- name: delete_indexed_job
DELETE FROM indexed_page WHERE id IN (
  SELECT id FROM indexed_page WHERE job_id = :job_id LIMIT :limit
);

-- name: delete_indexed_account
DELETE FROM indexed_page WHERE id IN (
  SELECT id FROM indexed_page WHERE account_id = :account_id LIMIT :limit
);

-- name: delete_account_cursors
DELETE FROM index_cursor WHERE account_id = :account_id;

-- name: delete_account_sites
DELETE FROM unreachable_site WHERE account_id = :account_id;

-- name: delete_sites_without_pages
-- Sites that could not be reached, of the account of a job: they matter to results of their pages.
DELETE FROM unreachable_site
WHERE account_id = (SELECT account_id FROM index_cursor WHERE job_id = :job_id)
  AND NOT EXISTS (
    SELECT 1 FROM indexed_page AS page
    WHERE page.account_id = unreachable_site.account_id AND page.origin = unreachable_site.origin
  );

-- name: delete_indexed_site
DELETE FROM indexed_page WHERE id IN (
  SELECT id FROM indexed_page WHERE account_id = :account_id AND origin = :origin LIMIT :limit
);

-- name: add_unreachable_site
INSERT INTO unreachable_site (account_id, origin) VALUES (:account_id, :origin)
ON CONFLICT (account_id, origin) DO NOTHING;

-- name: delete_unreachable_site
DELETE FROM unreachable_site WHERE account_id = :account_id AND origin = :origin;

-- name: find_pages
-- The texts of the best pages alone are decompressed.
WITH ranked AS MATERIALIZED (
  SELECT page.id, unreachable_site.origin IS NOT NULL AS unreachable,
    bm25(page_text, :title_weight, 1.0) AS score
  FROM page_text JOIN indexed_page AS page ON page.id = page_text.rowid
  LEFT JOIN unreachable_site ON unreachable_site.account_id = page.account_id
    AND unreachable_site.origin = page.origin
  WHERE page_text MATCH :match AND page.account_id = :account_id
  ORDER BY unreachable, score, page.id LIMIT :limit
)
SELECT url, title, decompressed(text) AS text, unreachable
FROM ranked JOIN indexed_page USING (id) ORDER BY unreachable, score, id;

-- name: find_pages on postgresql
-- A page's score is BM25: the sum over the words of their weight in it times the word's inverse
-- document frequency among the candidates. Of very many matches the newest pages are candidates.
-- The slice of `hashes` reads those of a page once, and not for each word.
WITH candidate AS MATERIALIZED (
  SELECT id, account_id, origin, hashes, weights FROM indexed_page
  WHERE account_id = :account_id
    AND hashes && :hashes::integer[] AND hashes @> :required::integer[]
  ORDER BY id DESC LIMIT :max_candidates
), match AS MATERIALIZED (
  SELECT candidate.id, word.hash, get_byte(candidate.weights, place - 1) AS weight
  FROM candidate CROSS JOIN LATERAL (SELECT hashes[1:] AS hashes OFFSET 0) AS page
  CROSS JOIN unnest(:hashes::integer[]) AS word (hash)
  CROSS JOIN LATERAL array_position(page.hashes, word.hash) AS place
  WHERE place IS NOT NULL
), frequency AS MATERIALIZED (
  SELECT hash, (SELECT COUNT(*) FROM candidate) AS pages, COUNT(*) AS matches
  FROM match GROUP BY hash
), score AS MATERIALIZED (
  SELECT id, SUM(weight * LN(1 + (pages - matches + 0.5) / (matches + 0.5))) AS score
  FROM match JOIN frequency USING (hash) GROUP BY id
), ranked AS MATERIALIZED (
  SELECT id, unreachable_site.origin IS NOT NULL AS unreachable, score
  FROM candidate JOIN score USING (id) LEFT JOIN unreachable_site USING (account_id, origin)
  ORDER BY 2, 3 DESC, 1 LIMIT :limit
)
SELECT url, title, job_id, position, unreachable
FROM ranked JOIN indexed_page USING (id) ORDER BY unreachable, score DESC, id;
