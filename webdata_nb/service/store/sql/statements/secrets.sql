-- name: mark_jobs_without_plaintext
-- Older jobs without a webhook URL have nothing left to encrypt.
UPDATE job SET sealing = 2
WHERE sealing < 2 AND sealed IS NOT NULL AND request NOT LIKE '%"webhook_url"%';

-- name: plaintext_jobs
-- Jobs older than encryption, or older than the encryption of webhook URLs.
SELECT id, request, context, sealed FROM job WHERE sealing < 2 AND id > :after
ORDER BY id LIMIT :limit;

-- name: encrypt_job
UPDATE job SET request = :request, context = '{}', sealed = :sealed, sealing = 2
WHERE id = :id AND sealing < 2;

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
