-- Times are Unix microseconds, UTC. Keys are sealed. Built-in providers have no rows.

CREATE TABLE providers (
    id          TEXT NOT NULL PRIMARY KEY,
    tenant_id   TEXT NOT NULL,
    name        TEXT NOT NULL,
    name_fold   TEXT NOT NULL, -- in lower case, for comparison and search
    protocol    TEXT NOT NULL,
    auth_style  TEXT NOT NULL,
    base_url    TEXT NOT NULL,
    api_key_enc ${bytes},
    models      TEXT NOT NULL, -- a JSON array
    enabled     BOOLEAN NOT NULL,
    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    UNIQUE (tenant_id, name_fold)
);
CREATE INDEX providers_by_address ON providers (tenant_id, protocol, base_url);
