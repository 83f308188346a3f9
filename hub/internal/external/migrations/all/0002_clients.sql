-- The path of the redirect URI that the login was started with.
ALTER TABLE login_flows ADD COLUMN callback TEXT NOT NULL DEFAULT '';

-- What a claim decides, as JSON; '' if there is no rule.
ALTER TABLE tenant_clients ADD COLUMN required_claim TEXT NOT NULL DEFAULT '';
ALTER TABLE tenant_clients ADD COLUMN role_claim TEXT NOT NULL DEFAULT '';
ALTER TABLE tenant_clients ADD COLUMN logout_revokes_tokens BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE login_codes ADD COLUMN role TEXT NOT NULL DEFAULT '';
ALTER TABLE login_codes ADD COLUMN admin_key TEXT NOT NULL DEFAULT '';

-- The client that the data of an organization belongs to. The row remains when the client is deleted.
CREATE TABLE org_owners (
    org       TEXT ${primary key},
    issuer    TEXT NOT NULL,
    client_id TEXT NOT NULL
);
INSERT INTO org_owners (org, issuer, client_id) SELECT org, issuer, client_id FROM tenant_clients;
