-- Times are Unix microseconds, UTC. Secrets and certificates are sealed; states, cookies and codes are SHA-256.

CREATE TABLE tenant_clients (
    org               TEXT ${primary key},
    provider          TEXT NOT NULL CHECK (provider IN ('oidc', 'casdoor')),
    issuer            TEXT NOT NULL,
    client_id         TEXT NOT NULL,
    client_secret_enc ${bytes} NOT NULL,
    cert_enc          ${bytes},
    is_default        BOOLEAN NOT NULL,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL
);
CREATE UNIQUE INDEX tenant_clients_one_default ON tenant_clients (is_default) WHERE is_default;
CREATE INDEX tenant_clients_by_client ON tenant_clients (client_id);

-- Every change of tenant_clients updates this row first, and so waits for the others.
CREATE TABLE tenant_client_changes (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL
);
INSERT INTO tenant_client_changes (id, version) VALUES (1, 0);

-- A login between its start and its callback, for ten minutes.
CREATE TABLE login_flows (
    state_hash   ${bytes} ${primary key},
    browser_hash ${bytes} NOT NULL,
    org          TEXT NOT NULL,
    issuer       TEXT NOT NULL,
    client_id    TEXT NOT NULL,
    nonce_hash   ${bytes} NOT NULL,
    verifier_enc ${bytes} NOT NULL,
    return_to    TEXT NOT NULL,
    expires_at   BIGINT NOT NULL
);
CREATE INDEX login_flows_by_expiry ON login_flows (expires_at);

-- A login between its callback and its exchange by the console, for a minute.
CREATE TABLE login_codes (
    code_hash    ${bytes} ${primary key},
    browser_hash ${bytes} NOT NULL,
    tenant_id    TEXT NOT NULL,
    issuer       TEXT NOT NULL,
    subject      TEXT NOT NULL,
    session_id   TEXT NOT NULL,
    username     TEXT NOT NULL,
    display_name TEXT NOT NULL,
    email        TEXT NOT NULL,
    is_admin     BOOLEAN NOT NULL,
    expires_at   BIGINT NOT NULL
);
CREATE INDEX login_codes_by_expiry ON login_codes (expires_at);

-- Logout tokens that were used, until they expire.
CREATE TABLE logout_tokens (
    token_hash ${bytes} ${primary key},
    expires_at BIGINT NOT NULL
);
