-- The session at the identity provider (the claim sid), for its logout.
ALTER TABLE sessions ADD COLUMN provider_session TEXT;
CREATE INDEX sessions_by_provider ON sessions (tenant_id, provider_session) WHERE provider_session IS NOT NULL;

-- The names that made their user an admin at the first login. Each does so once, also after its user was deleted.
CREATE TABLE bootstrap_admins (
    tenant_id     TEXT NOT NULL REFERENCES tenants (id),
    username_fold TEXT NOT NULL,
    used_at       BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, username_fold)
);
