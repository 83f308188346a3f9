-- The address of the sign-in: an IPv4 address or an IPv6 /64. Sessions that are older have none.
ALTER TABLE sessions ADD COLUMN address TEXT NOT NULL DEFAULT '';
CREATE INDEX sessions_by_network ON sessions (tenant_id, network, created_at);

-- The failures of an account from all networks, since the first of them. One row, as in login_networks.
CREATE TABLE login_accounts (
    account_fold TEXT NOT NULL PRIMARY KEY,
    began        BIGINT NOT NULL,
    failures     BIGINT NOT NULL
);
CREATE INDEX login_accounts_by_time ON login_accounts (began);
