-- The device tokens of a user have this number. It grows when they are revoked.
ALTER TABLE members ADD COLUMN device_epoch BIGINT NOT NULL DEFAULT 0;

-- The device of a session, and the incorrect passwords that its sessions gave to change the
-- password. The device of a session without one is the session itself.
ALTER TABLE sessions ADD COLUMN device TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN wrong_passwords BIGINT NOT NULL DEFAULT 0;

-- Where an account signed in no longer decides whether it is locked out.
DROP INDEX sessions_by_network;

-- The failures of the last minute in which there was one, for the sampling of audit entries.
ALTER TABLE login_accounts ADD COLUMN minute BIGINT NOT NULL DEFAULT 0;
ALTER TABLE login_accounts ADD COLUMN in_minute BIGINT NOT NULL DEFAULT 0;
