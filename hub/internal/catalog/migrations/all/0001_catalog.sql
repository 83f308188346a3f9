-- Times are Unix microseconds, UTC. search is the name and the title in lower case.

-- Each transaction that changes something of a tenant increments its version first.
CREATE TABLE catalog_heads (
    tenant_id TEXT ${primary key},
    version   BIGINT NOT NULL
);

CREATE TABLE agents (
    id               TEXT ${primary key},
    tenant_id        TEXT NOT NULL,
    name             TEXT NOT NULL,
    title            TEXT NOT NULL,
    title_en         TEXT NOT NULL,
    description      TEXT NOT NULL,
    description_en   TEXT NOT NULL,
    icon             TEXT NOT NULL,
    search           TEXT NOT NULL,
    enabled          BOOLEAN NOT NULL,
    is_default       BOOLEAN NOT NULL,
    provider_id      TEXT NOT NULL,
    model            TEXT NOT NULL,
    system_prompt    TEXT NOT NULL,
    max_turns        BIGINT NOT NULL,
    permission_mode  TEXT NOT NULL,
    allowed_tools    TEXT, -- JSON; NULL: every tool
    disallowed_tools TEXT NOT NULL, -- JSON
    subagents        TEXT NOT NULL, -- JSON
    setting_sources  TEXT NOT NULL, -- JSON
    version          BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    UNIQUE (tenant_id, name)
);
CREATE UNIQUE INDEX agents_default ON agents (tenant_id) WHERE is_default;
CREATE INDEX agents_by_provider ON agents (tenant_id, provider_id);

CREATE TABLE agent_bindings (
    tenant_id   TEXT NOT NULL,
    agent_id    TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    kind        TEXT NOT NULL CHECK (kind IN ('tool', 'skill', 'mcp', 'knowledge')),
    name        TEXT NOT NULL,
    position    BIGINT NOT NULL,
    description TEXT NOT NULL, -- of knowledge for this agent; empty: that of the knowledge set
    PRIMARY KEY (agent_id, kind, name)
);
CREATE INDEX agent_bindings_by_name ON agent_bindings (tenant_id, kind, name);

CREATE TABLE scenes (
    id             TEXT ${primary key},
    tenant_id      TEXT NOT NULL,
    name           TEXT NOT NULL,
    title          TEXT NOT NULL,
    title_en       TEXT NOT NULL,
    description    TEXT NOT NULL,
    description_en TEXT NOT NULL,
    icon           TEXT NOT NULL,
    search         TEXT NOT NULL,
    agent_name     TEXT NOT NULL,
    prompt         TEXT NOT NULL,
    position       BIGINT NOT NULL,
    enabled        BOOLEAN NOT NULL,
    version        BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    UNIQUE (tenant_id, name)
);
CREATE INDEX scenes_by_agent ON scenes (tenant_id, agent_name);

CREATE TABLE mcps (
    id          TEXT ${primary key},
    tenant_id   TEXT NOT NULL,
    name        TEXT NOT NULL,
    title       TEXT NOT NULL,
    description TEXT NOT NULL,
    search      TEXT NOT NULL,
    transport   TEXT NOT NULL,
    command     TEXT NOT NULL,
    args        TEXT NOT NULL, -- JSON
    env         TEXT NOT NULL, -- JSON: names to sealed values
    url         TEXT NOT NULL,
    headers     TEXT NOT NULL, -- JSON: names to sealed values
    enabled     BOOLEAN NOT NULL,
    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    UNIQUE (tenant_id, name)
);

CREATE TABLE knowledge (
    id          TEXT ${primary key},
    tenant_id   TEXT NOT NULL,
    name        TEXT NOT NULL,
    title       TEXT NOT NULL,
    description TEXT NOT NULL,
    search      TEXT NOT NULL,
    dataset_id  TEXT NOT NULL,
    enabled     BOOLEAN NOT NULL,
    version     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    UNIQUE (tenant_id, name)
);
