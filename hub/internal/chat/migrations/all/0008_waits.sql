-- What an answer waits for, with what continues it, as JSON. '' unless its run ended waiting. The status
-- is completed then, and partial while a run continues it.
ALTER TABLE chat_messages ADD COLUMN pending TEXT NOT NULL DEFAULT '';
ALTER TABLE chat_sessions ADD COLUMN waiting BOOLEAN NOT NULL DEFAULT FALSE; -- the last answer

-- What waits, and what waited and was answered, so that an answer can be sent again. approvers is 'owner'
-- with the id of the user, maintainer or admin, and '' for a program. The ids are in the order of time.
CREATE TABLE chat_waits (
    session_key TEXT NOT NULL REFERENCES chat_sessions (key) ON DELETE CASCADE,
    id          TEXT NOT NULL,
    tenant_id   TEXT NOT NULL,
    approvers   TEXT NOT NULL,
    user_id     TEXT NOT NULL, -- the owner of the session
    user_name   TEXT NOT NULL,
    agent_name  TEXT NOT NULL,
    session_id  TEXT NOT NULL,
    message_id  TEXT NOT NULL, -- of the answer
    seq         ${integer} NOT NULL,
    kind        TEXT NOT NULL,
    tool_name   TEXT NOT NULL,
    reason      TEXT NOT NULL,
    executed    TEXT NOT NULL, -- its start
    digest      TEXT NOT NULL, -- the SHA-256 of all of it, in hexadecimal
    created_at  ${integer} NOT NULL,
    answer      TEXT NOT NULL, -- the SHA-256 of the user and the answer, in hexadecimal; '' while it waits
    run_id      TEXT NOT NULL DEFAULT '', -- that continues with the answer; '' while it or others are missing
    PRIMARY KEY (session_key, id)
);
-- A runtime gives the ids, and is not trusted: an id that another chat has is not stored again. The
-- expression keeps lists in the order of ids from reading this index in place of the next one.
CREATE UNIQUE INDEX chat_waits_by_id ON chat_waits (tenant_id, (id || ''));
CREATE INDEX chat_waits_of_approvers ON chat_waits (tenant_id, answer, approvers, id, user_id);
