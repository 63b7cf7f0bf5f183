-- name: nothing_to_seal
-- Jobs of before the webhook's URL was sealed that have none.
UPDATE job SET sealing = 2
WHERE sealing < 2 AND sealed IS NOT NULL AND request NOT LIKE '%"webhook_url"%';

-- name: unsealed
-- Jobs of before there was sealing, or of before the webhook's URL was sealed.
SELECT id, request, context, sealed FROM job WHERE sealing < 2 AND id > :after
ORDER BY id LIMIT :limit;

-- name: seal
UPDATE job SET request = :request, context = '{}', sealed = :sealed, sealing = 2
WHERE id = :id AND sealing < 2;

-- name: sealed
-- Jobs with secrets, by id, from one on.
SELECT id, sealed FROM job WHERE sealed <> '' AND id > :after ORDER BY id LIMIT :limit;

-- name: reseal
UPDATE job SET sealed = :sealed WHERE id = :id AND sealed = :before;
