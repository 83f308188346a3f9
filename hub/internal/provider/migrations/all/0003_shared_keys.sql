-- The keys that tenants have given to built-in providers.

CREATE TABLE shared_provider_keys (
    id          TEXT NOT NULL PRIMARY KEY, -- tenant_id/provider_id
    tenant_id   TEXT NOT NULL,
    provider_id TEXT NOT NULL,
    api_key_enc ${bytes}, -- NULL: it was removed
    version     BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL
);
CREATE INDEX shared_provider_keys_by_tenant ON shared_provider_keys (tenant_id);
