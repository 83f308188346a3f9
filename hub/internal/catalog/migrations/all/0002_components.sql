-- Custom tools and skills. hash is the SHA-256 of the file in hex: rows may share a blob.
CREATE TABLE tools (
    id             TEXT NOT NULL PRIMARY KEY,
    tenant_id      TEXT NOT NULL,
    name           TEXT NOT NULL,
    title          TEXT NOT NULL,
    description    TEXT NOT NULL,
    description_en TEXT NOT NULL,
    search         TEXT NOT NULL,
    file_name      TEXT NOT NULL,
    hash           TEXT NOT NULL,
    size           BIGINT NOT NULL,
    version        BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    UNIQUE (tenant_id, name)
);
CREATE INDEX tools_by_hash ON tools (hash);

CREATE TABLE skills (
    id             TEXT NOT NULL PRIMARY KEY,
    tenant_id      TEXT NOT NULL,
    name           TEXT NOT NULL,
    type           TEXT NOT NULL CHECK (type IN ('expert', 'community')),
    title          TEXT NOT NULL,
    description    TEXT NOT NULL,
    description_en TEXT NOT NULL,
    search         TEXT NOT NULL,
    hash           TEXT NOT NULL,
    size           BIGINT NOT NULL,
    version        BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    UNIQUE (tenant_id, name)
);
CREATE INDEX skills_by_hash ON skills (hash);
