-- settings is a JSON object with the settings of the runtime that have no column of their own.
-- Empty: there are none. secrets has the sealed values of those of MCP servers, by their keys.
ALTER TABLE agents ADD COLUMN settings TEXT NOT NULL DEFAULT '';
ALTER TABLE mcps ADD COLUMN settings TEXT NOT NULL DEFAULT '';
ALTER TABLE mcps ADD COLUMN secrets TEXT NOT NULL DEFAULT '{}';
