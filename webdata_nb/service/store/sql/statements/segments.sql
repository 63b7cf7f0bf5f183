-- name: newest_segment
SELECT name, account_id, contents FROM segment WHERE state = 'stored'
ORDER BY created_at DESC, name LIMIT 1;

-- name: jobs_to_move
-- Ended jobs first, in the order of their end. Of the others only what clients can see is moved.
SELECT id, account_id, finished_at IS NOT NULL AS has_ended FROM job
WHERE moved_at IS NULL AND (finished_at IS NOT NULL OR published > 0) AND expired_at IS NULL
ORDER BY finished_at IS NULL, finished_at, id LIMIT :limit;

-- name: movable_contents
-- Of a running job the contents of visible rows.
SELECT e.ordinal, c.id, c.size FROM entry e JOIN content c ON c.id = e.content_id
WHERE e.job_id = :job_id AND e.ordinal >= :start AND c.body IS NOT NULL
  AND (:has_ended OR e.position IS NOT NULL)
ORDER BY e.ordinal LIMIT :limit;

-- name: content
SELECT id, body, size, segment FROM content WHERE id = :id;

-- name: mark_moved
UPDATE job SET moved_at = :now WHERE id = :id;

-- name: add_segment
-- Before its file is written; of a deleted account none is.
INSERT INTO segment (name, account_id, contents, state, created_at)
SELECT :name, id, :contents, 'writing', :now FROM account
WHERE id = :account_id AND deleted_at IS NULL;

-- name: store_segment
-- The fence of a move: changes no row if the segment was given up.
UPDATE segment SET state = 'stored' WHERE name = :name AND state = 'writing';

-- name: move_content
UPDATE content SET body = NULL, segment = :name WHERE id = :id AND body IS NOT NULL;

-- name: repoint_content
UPDATE content SET segment = :name WHERE id = :id AND segment = :source;

-- name: reduced_segments
-- Segments that have lost contents, but not all.
SELECT name, account_id, contents FROM (
  SELECT name, account_id, contents,
    (SELECT COUNT(*) FROM content WHERE content.segment = segment.name) AS found
  FROM segment WHERE state = 'stored' AND name > :after
) AS counted
WHERE found > 0 AND found < contents
ORDER BY name LIMIT :limit;

-- name: contents_of_segment
SELECT id FROM content WHERE segment = :name ORDER BY id;

-- name: give_up_unfinished_segments
-- Not in one statement with the next: of a row that a move changes meanwhile, PostgreSQL reads the
-- new state, but none of the contents that point to it now.
UPDATE segment SET state = 'deleting' WHERE state = 'writing' AND created_at < :before;

-- name: give_up_unused_segments
-- Nothing points to a stored segment later than the transaction that stored it.
UPDATE segment SET state = 'deleting'
WHERE state = 'stored'
  AND NOT EXISTS (SELECT 1 FROM content WHERE content.segment = segment.name);

-- name: give_up_segments_of
UPDATE segment SET state = 'deleting' WHERE account_id = :account_id;

-- name: segments_of
SELECT name FROM segment WHERE account_id = :account_id ORDER BY name LIMIT :limit;

-- name: given_up_segments
SELECT name FROM segment WHERE state = 'deleting' ORDER BY name LIMIT :limit;

-- name: remove_segment
DELETE FROM segment WHERE name = :name AND state = 'deleting';

-- name: segment_names
SELECT name FROM segment;

-- name: segment_contents
-- Every content that is in a segment, with the state of the segment.
SELECT content.segment, content.id, segment.state
FROM content LEFT JOIN segment ON segment.name = content.segment
WHERE content.segment IS NOT NULL
ORDER BY content.segment, content.id;
