-- The name of the claim with the groups of a user; '' if there is none.
ALTER TABLE tenant_clients ADD COLUMN groups_claim TEXT NOT NULL DEFAULT '';
ALTER TABLE login_codes ADD COLUMN group_names TEXT NOT NULL DEFAULT '[]';
