-- access is a JSON object with who may use the agent. Empty: everyone of the tenant.
ALTER TABLE agents ADD COLUMN access TEXT NOT NULL DEFAULT '';
