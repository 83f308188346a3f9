-- deployment is a JSON object with what the runtime of the agent may use. Empty: what the settings of
-- the hub have.
ALTER TABLE agents ADD COLUMN deployment TEXT NOT NULL DEFAULT '';
