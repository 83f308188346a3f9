-- digest is the version of the row, a space, and a text that changes with the content. A row with
-- another version was changed by an earlier version of the program, which does not know the column.
ALTER TABLE mcps ADD COLUMN digest TEXT NOT NULL DEFAULT '';
ALTER TABLE knowledge ADD COLUMN digest TEXT NOT NULL DEFAULT '';

-- bytes is about the memory that an agent with its bindings takes.
ALTER TABLE agents ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;
UPDATE agents SET bytes = 1024 + OCTET_LENGTH(title) + OCTET_LENGTH(title_en) + OCTET_LENGTH(description) + OCTET_LENGTH(description_en) + OCTET_LENGTH(icon) + OCTET_LENGTH(model) + OCTET_LENGTH(system_prompt) + OCTET_LENGTH(disallowed_tools) + OCTET_LENGTH(subagents) + OCTET_LENGTH(setting_sources)
    + COALESCE(OCTET_LENGTH(allowed_tools), 0)
    + COALESCE((SELECT SUM(48 + OCTET_LENGTH(b.name) + OCTET_LENGTH(b.description)) FROM agent_bindings b
        WHERE b.tenant_id = agents.tenant_id AND b.agent_id = agents.id), 0);
CREATE INDEX agents_by_bytes ON agents (tenant_id, bytes);
