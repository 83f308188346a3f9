-- sandbox is a JSON object. Empty: the defaults of the runtime.
ALTER TABLE agents ADD COLUMN sandbox TEXT NOT NULL DEFAULT '';
ALTER TABLE mcps ADD COLUMN sandbox TEXT NOT NULL DEFAULT '';
