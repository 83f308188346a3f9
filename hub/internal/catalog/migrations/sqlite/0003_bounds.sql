-- digest is the version of the row, a space, and a text that changes with the content. A row with
-- another version was changed by an earlier version of the program, which does not know the column.
ALTER TABLE mcps ADD COLUMN digest TEXT NOT NULL DEFAULT '';
ALTER TABLE knowledge ADD COLUMN digest TEXT NOT NULL DEFAULT '';

-- bytes is about the memory that an agent with its bindings takes.
ALTER TABLE agents ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;
UPDATE agents SET bytes = 1024 + LENGTH(CAST(title AS BLOB)) + LENGTH(CAST(title_en AS BLOB)) + LENGTH(CAST(description AS BLOB)) + LENGTH(CAST(description_en AS BLOB)) + LENGTH(CAST(icon AS BLOB)) + LENGTH(CAST(model AS BLOB)) + LENGTH(CAST(system_prompt AS BLOB)) + LENGTH(CAST(disallowed_tools AS BLOB)) + LENGTH(CAST(subagents AS BLOB)) + LENGTH(CAST(setting_sources AS BLOB))
    + COALESCE(LENGTH(CAST(allowed_tools AS BLOB)), 0)
    + COALESCE((SELECT SUM(48 + LENGTH(CAST(b.name AS BLOB)) + LENGTH(CAST(b.description AS BLOB))) FROM agent_bindings b
        WHERE b.tenant_id = agents.tenant_id AND b.agent_id = agents.id), 0);
CREATE INDEX agents_by_bytes ON agents (tenant_id, bytes);
