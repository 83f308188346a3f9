-- The answers in progress of a user and of an agent are limited.
ALTER TABLE chat_runs ADD COLUMN user_id TEXT NOT NULL DEFAULT '';
ALTER TABLE chat_runs ADD COLUMN agent_name TEXT NOT NULL DEFAULT '';
CREATE INDEX chat_runs_of_user ON chat_runs (tenant_id, user_id);
CREATE INDEX chat_runs_of_agent ON chat_runs (tenant_id, agent_name);

-- Whether a runtime may have accepted the run of an answer. If not, the message can be sent again.
ALTER TABLE chat_messages ADD COLUMN started BOOLEAN NOT NULL DEFAULT TRUE;

-- The transcripts of deleted chats, which a runtime still has.
CREATE TABLE chat_transcripts (
    tenant_id       TEXT NOT NULL,
    agent_name      TEXT NOT NULL,
    runtime_session TEXT NOT NULL,
    due_at          ${integer} NOT NULL, -- of the next attempt
    keep_until      ${integer} NOT NULL, -- then the runtime has deleted it by itself
    PRIMARY KEY (tenant_id, agent_name, runtime_session)
);
CREATE INDEX chat_transcripts_due ON chat_transcripts (due_at);
