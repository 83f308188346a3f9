-- The SHA-256 of the API key, by which requests under /runtime are authorized: without a valid key,
-- no statement depends on the name of an agent. NULL until a hub of this version has read the row.
ALTER TABLE deployments ADD COLUMN key_digest BLOB;
CREATE UNIQUE INDEX deployments_by_digest ON deployments (key_digest);

-- 'offered': the sealed part has the next key, and the runtime gets both.
-- 'replaced': the next key is the key, and the runtime may still accept the former one.
ALTER TABLE deployments ADD COLUMN rotation TEXT NOT NULL DEFAULT '';

-- Who has read a key. A user_id of '*' is anyone: the key was issued before this table existed.
CREATE TABLE deployment_readers (
    tenant_id  TEXT NOT NULL,
    key_digest BLOB NOT NULL,
    user_id    TEXT NOT NULL,
    PRIMARY KEY (tenant_id, key_digest, user_id)
);

-- Identifies this database on a platform, also after it was restored from a backup.
ALTER TABLE deployment_fence ADD COLUMN owner TEXT NOT NULL DEFAULT '';
UPDATE deployment_fence SET owner = lower(hex(randomblob(16)));
