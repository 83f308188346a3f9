-- The failures from a network, whatever the account, since the first of them. One row, as in login_attempts.
CREATE TABLE login_networks (
    network  TEXT PRIMARY KEY,
    began    BIGINT NOT NULL,
    failures BIGINT NOT NULL
);
CREATE INDEX login_networks_by_time ON login_networks (began);
