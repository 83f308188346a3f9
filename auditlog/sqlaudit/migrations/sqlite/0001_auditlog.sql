-- One row for each tenant. It is locked by whoever appends: ids are taken here, so their order is
-- the order of commits.
CREATE TABLE audit_heads (
    tenant     INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT   NOT NULL UNIQUE,
    id         BIGINT NOT NULL DEFAULT 0,  -- id of the last entry, which is also how many there have been
    hash       BLOB   NOT NULL DEFAULT x'', -- of the last entry
    at         BIGINT NOT NULL DEFAULT 0,  -- createdAt of the last entry, Unix microseconds
    floor_id   BIGINT NOT NULL DEFAULT 0,  -- id of the last pruned entry
    floor_hash BLOB   NOT NULL DEFAULT x'', -- and its hash: from here the chain still verifies
    floor_at   BIGINT NOT NULL DEFAULT 0,  -- and its createdAt
    epoch      BIGINT NOT NULL DEFAULT 0   -- grows when keys are removed: what writers remember of keys is void then
);

-- Categories, actions, users and actors of a tenant; entries carry the key. An actor is a user
-- within one category, so that a user in a category is a set of actors as a user alone is.
CREATE TABLE audit_keys (
    key       INTEGER  PRIMARY KEY AUTOINCREMENT,
    tenant    BIGINT   NOT NULL REFERENCES audit_heads (tenant),
    kind      SMALLINT NOT NULL,            -- 1 category, 2 action, 3 actor, 4 user
    digest    TEXT     NOT NULL,            -- of all that the key stands for, whose texts may be too long for an index
    category  BIGINT,                       -- of an actor: key of the category
    owner     BIGINT,                       -- of an actor: key of the user
    name      TEXT     NOT NULL,            -- of a category, action or user
    user_id   TEXT     NOT NULL DEFAULT '',
    fold_name TEXT     NOT NULL DEFAULT '', -- ASCII letters in lower case
    fold_id   TEXT     NOT NULL DEFAULT '',
    floor     BIGINT   NOT NULL DEFAULT 0,  -- position of its last pruned entry
    UNIQUE (tenant, digest)
);

CREATE INDEX audit_keys_users  ON audit_keys (tenant, key)   WHERE kind = 4;
CREATE INDEX audit_keys_actors ON audit_keys (owner, category) WHERE kind = 3;

CREATE TABLE audit_entries (
    tenant       BIGINT NOT NULL,
    id           BIGINT NOT NULL, -- dense within the tenant
    created_at   BIGINT NOT NULL, -- Unix microseconds, never decreases along id
    category     BIGINT NOT NULL,
    category_pos BIGINT NOT NULL, -- dense within the category, from 1
    action       BIGINT NOT NULL,
    action_pos   BIGINT NOT NULL,
    actor        BIGINT NOT NULL,
    actor_pos    BIGINT NOT NULL,
    target_type  TEXT   NOT NULL,
    target_id    TEXT   NOT NULL,
    target_name  TEXT   NOT NULL,
    status       TEXT   NOT NULL,
    detail       TEXT, -- JSON as it was hashed
    remote_ip    TEXT   NOT NULL,
    user_agent   TEXT   NOT NULL,
    hash         BLOB   NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX audit_entries_category ON audit_entries (category, id);
CREATE INDEX audit_entries_action   ON audit_entries (action, id, actor);
CREATE INDEX audit_entries_actor    ON audit_entries (actor, id, action);

-- Milestones: the way from a position or a time to an id, at a sixteenth or less of the cost of a
-- whole index.
CREATE INDEX audit_entries_category_mark ON audit_entries (category, category_pos) WHERE category_pos % 16 = 0;
CREATE INDEX audit_entries_action_mark   ON audit_entries (action, action_pos)     WHERE action_pos % 16 = 0;
CREATE INDEX audit_entries_actor_mark    ON audit_entries (actor, actor_pos)       WHERE actor_pos % 16 = 0;
CREATE INDEX audit_entries_time_mark     ON audit_entries (tenant, created_at, id) WHERE id % 16 = 0;
