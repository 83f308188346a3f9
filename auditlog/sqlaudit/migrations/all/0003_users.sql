-- An entry refers to its user instead of an actor (a user within one category), and users have no
-- positions.
DROP INDEX audit_entries_action;
DROP INDEX audit_entries_actor;
DROP INDEX audit_keys_actors;
-- The user of a missing actor is key 0, which does not exist.
UPDATE audit_entries SET actor = COALESCE((SELECT k.owner FROM audit_keys k WHERE k.key = audit_entries.actor), 0);
ALTER TABLE audit_entries RENAME COLUMN actor TO user_key;
ALTER TABLE audit_entries DROP COLUMN actor_pos;
DELETE FROM audit_keys WHERE kind = 3;
ALTER TABLE audit_keys DROP COLUMN category;
ALTER TABLE audit_keys DROP COLUMN owner;
ALTER TABLE audit_heads DROP COLUMN epoch;
CREATE INDEX audit_entries_action ON audit_entries (action, id);
CREATE INDEX audit_entries_user   ON audit_entries (user_key, id, category, action);
