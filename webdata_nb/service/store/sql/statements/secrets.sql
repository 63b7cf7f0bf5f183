-- name: encrypted_jobs
-- Jobs with secrets, by id, after one.
SELECT id, sealed FROM job WHERE sealed <> '' AND id > :after ORDER BY id LIMIT :limit;

-- name: replace_sealed
UPDATE job SET sealed = :sealed WHERE id = :id AND sealed = :before;

-- name: add_setting
INSERT INTO setting (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING;

-- name: setting
SELECT value FROM setting WHERE name = :name;

-- name: replace_setting
UPDATE setting SET value = :value WHERE name = :name AND value = :before;
