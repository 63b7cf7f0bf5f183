-- name: unsealed
-- Jobs of before there was sealing.
SELECT id, request, context FROM job WHERE sealed IS NULL;

-- name: seal
UPDATE job SET request = :request, context = '{}', sealed = :sealed
WHERE id = :id AND sealed IS NULL;

-- name: sealed
-- Jobs with secrets, by id, from one on.
SELECT id, sealed FROM job WHERE sealed <> '' AND id > :after ORDER BY id LIMIT :limit;

-- name: reseal
UPDATE job SET sealed = :sealed WHERE id = :id AND sealed = :before;
