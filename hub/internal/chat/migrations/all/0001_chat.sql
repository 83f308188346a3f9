-- Clients choose the ids of the sessions that they push: they are unique for a user.
CREATE TABLE chat_sessions (
    key             TEXT PRIMARY KEY,
    tenant_id       TEXT NOT NULL,
    user_id         TEXT NOT NULL,
    id              TEXT NOT NULL,
    user_name       TEXT NOT NULL,
    user_search     TEXT NOT NULL, -- user_name and user_id in lower case
    agent_name      TEXT NOT NULL,
    title           TEXT NOT NULL,
    source          TEXT NOT NULL CHECK (source IN ('hub', 'push')),
    message_count   ${integer} NOT NULL DEFAULT 0, -- also the last seq
    runtime_session TEXT NOT NULL DEFAULT '',  -- the session of the runtime that continues this one
    last_message_at ${integer},
    created_at      ${integer} NOT NULL,
    updated_at      ${integer} NOT NULL,
    UNIQUE (tenant_id, user_id, id)
);
CREATE INDEX chat_sessions_by_id ON chat_sessions (tenant_id, id);
CREATE INDEX chat_sessions_by_change ON chat_sessions (tenant_id, updated_at, key);
CREATE INDEX chat_sessions_of_user ON chat_sessions (tenant_id, user_id, updated_at, key);

-- seq is 1, 2, 3 without a gap, so that a page is a range of it.
CREATE TABLE chat_messages (
    session_key   TEXT NOT NULL REFERENCES chat_sessions (key) ON DELETE CASCADE,
    seq           ${integer} NOT NULL,
    tenant_id     TEXT NOT NULL,
    id            TEXT NOT NULL,
    client_id     TEXT, -- clientMessageId
    role          TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
    status        TEXT NOT NULL CHECK (status IN ('completed', 'partial', 'cancelled', 'failed')),
    text          TEXT NOT NULL,            -- without the notice
    content       TEXT NOT NULL DEFAULT '', -- a JSON array without the notice; '' for one block with the text
    run_id        TEXT NOT NULL DEFAULT '',
    model         TEXT NOT NULL DEFAULT '',
    usage         TEXT NOT NULL DEFAULT '', -- JSON
    aigc          TEXT NOT NULL DEFAULT '', -- JSON
    notice        TEXT NOT NULL DEFAULT '',
    notice_at     TEXT NOT NULL DEFAULT '' CHECK (notice_at IN ('', 'append', 'prepend')),
    error_code    TEXT NOT NULL DEFAULT '',
    error_message TEXT NOT NULL DEFAULT '',
    created_at    ${integer} NOT NULL,
    PRIMARY KEY (session_key, seq)
);
CREATE UNIQUE INDEX chat_messages_by_client ON chat_messages (session_key, client_id) WHERE client_id IS NOT NULL;

-- The answers in progress, one for a session. A row whose alive_until has passed belongs to a hub that ended.
CREATE TABLE chat_runs (
    run_id      TEXT PRIMARY KEY,
    tenant_id   TEXT NOT NULL,
    session_key TEXT NOT NULL UNIQUE REFERENCES chat_sessions (key) ON DELETE CASCADE,
    worker_id   TEXT NOT NULL, -- of the hub that relays the answer
    cancel      BOOLEAN NOT NULL DEFAULT FALSE,
    alive_until ${integer} NOT NULL
);
