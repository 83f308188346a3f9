-- Times are Unix microseconds, UTC. Secrets of keys are sealed.

-- The row of a tenant stays when its configuration is deleted, so that changes can lock it.
CREATE TABLE aigc_configs (
    tenant_id  TEXT NOT NULL PRIMARY KEY,
    config     TEXT, -- a JSON object; NULL without a configuration
    updated_at BIGINT
);

-- A retired key verifies labels, and signs none.
CREATE TABLE aigc_keys (
    kid        TEXT NOT NULL PRIMARY KEY,
    tenant_id  TEXT NOT NULL,
    secret_enc ${bytes} NOT NULL,
    created_at BIGINT NOT NULL,
    retired_at BIGINT
);
CREATE INDEX aigc_keys_by_creation ON aigc_keys (tenant_id, created_at, kid);
CREATE UNIQUE INDEX aigc_keys_one_signs ON aigc_keys (tenant_id) WHERE retired_at IS NULL;
