-- Times are Unix microseconds, UTC. Tokens stand here as SHA-256 alone, passwords as argon2id.

CREATE TABLE instance (
    name  TEXT ${primary key},
    value TEXT NOT NULL
);

-- A change that can touch a tenant's last admin updates the tenant's row first, and so waits for its like.
CREATE TABLE tenants (
    id         TEXT ${primary key},
    created_at BIGINT NOT NULL,
    version    BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE members (
    id                  TEXT ${primary key},
    tenant_id           TEXT NOT NULL REFERENCES tenants (id),
    username            TEXT NOT NULL,
    username_fold       TEXT NOT NULL,
    display_name        TEXT NOT NULL,
    email               TEXT NOT NULL DEFAULT '',
    role                TEXT NOT NULL CHECK (role IN ('admin', 'maintainer', 'member')),
    status              TEXT NOT NULL CHECK (status IN ('active', 'disabled')),
    auth_source         TEXT NOT NULL,
    issuer              TEXT,
    subject             TEXT,
    password_hash       TEXT NOT NULL DEFAULT '',
    password_changed_at BIGINT,
    must_change         BOOLEAN NOT NULL DEFAULT FALSE, -- the password, since it was reset
    last_login_at       BIGINT,
    created_at          BIGINT NOT NULL,
    updated_at          BIGINT NOT NULL,
    UNIQUE (tenant_id, username_fold)
);
CREATE INDEX members_by_creation ON members (tenant_id, created_at, id);
CREATE UNIQUE INDEX members_by_subject ON members (tenant_id, issuer, subject) WHERE subject IS NOT NULL;

-- A session is one family of refresh tokens.
CREATE TABLE sessions (
    id           TEXT ${primary key},
    tenant_id    TEXT NOT NULL,
    user_id      TEXT NOT NULL REFERENCES members (id) ON DELETE CASCADE,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    idle_until   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    remote_ip    TEXT NOT NULL,
    network      TEXT NOT NULL, -- of the sign-in: an IPv4 /24 or an IPv6 /48
    user_agent   TEXT NOT NULL,
    revoked_at   BIGINT,
    revoked_why  TEXT
);
CREATE INDEX sessions_by_user ON sessions (user_id, created_at);

CREATE TABLE refresh_tokens (
    hash       ${bytes} ${primary key},
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    rotated_at BIGINT
);
CREATE INDEX refresh_tokens_by_session ON refresh_tokens (session_id, rotated_at);

CREATE TABLE invites (
    id              TEXT ${primary key},
    tenant_id       TEXT NOT NULL REFERENCES tenants (id),
    token_hash      ${bytes} NOT NULL UNIQUE,
    role            TEXT NOT NULL CHECK (role IN ('admin', 'maintainer', 'member')),
    note            TEXT NOT NULL DEFAULT '',
    created_by      TEXT NOT NULL,
    created_by_name TEXT NOT NULL,
    created_at      BIGINT NOT NULL,
    expires_at      BIGINT NOT NULL,
    used_at         BIGINT,
    used_by         TEXT,
    revoked_at      BIGINT
);
CREATE INDEX invites_by_creation ON invites (tenant_id, created_at, id);

CREATE TABLE cli_tokens (
    id           TEXT ${primary key},
    tenant_id    TEXT NOT NULL,
    user_id      TEXT NOT NULL REFERENCES members (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    token_hash   ${bytes} NOT NULL UNIQUE,
    prefix       TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT,
    last_used_at BIGINT,
    last_used_ip TEXT,
    revoked_at   BIGINT
);
CREATE INDEX cli_tokens_by_user ON cli_tokens (user_id, created_at, id);

-- The key that signs is the one not retired; a retired one is published until it expires, when its last token has.
CREATE TABLE signing_keys (
    id             TEXT ${primary key},
    public_key     ${bytes} NOT NULL,
    private_sealed ${bytes} NOT NULL,
    created_at     BIGINT NOT NULL,
    retired_at     BIGINT,
    expires_at     BIGINT
);
CREATE UNIQUE INDEX signing_keys_one_signs ON signing_keys ((retired_at IS NULL)) WHERE retired_at IS NULL;

-- The last five failures of an account from an address, oldest first (0: fewer than five). One row, so that one statement
-- both counts and is counted, whatever else runs.
CREATE TABLE login_attempts (
    account_fold TEXT NOT NULL,
    remote_ip    TEXT NOT NULL,
    at1          BIGINT NOT NULL,
    at2          BIGINT NOT NULL,
    at3          BIGINT NOT NULL,
    at4          BIGINT NOT NULL,
    at5          BIGINT NOT NULL,
    PRIMARY KEY (account_fold, remote_ip)
);
CREATE INDEX login_attempts_by_time ON login_attempts (at5);

-- The failures from a network, for all accounts, since the first of them. One row, as in login_attempts.
CREATE TABLE login_networks (
    network  TEXT ${primary key},
    began    BIGINT NOT NULL,
    failures BIGINT NOT NULL
);
CREATE INDEX login_networks_by_time ON login_networks (began);
