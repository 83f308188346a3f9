-- The groups of a user at the identity provider, as a JSON list.
ALTER TABLE members ADD COLUMN group_names TEXT NOT NULL DEFAULT '[]';
