-- The bytes of the messages of a session, with 512 for each message, for the limit of a user.
ALTER TABLE chat_sessions ADD COLUMN size BIGINT NOT NULL DEFAULT 0;
UPDATE chat_sessions SET size = (SELECT COALESCE(SUM(512 + octet_length(text) + octet_length(content)), 0)
    FROM chat_messages WHERE session_key = chat_sessions.key);

DROP INDEX chat_sessions_of_user;
CREATE INDEX chat_sessions_of_user ON chat_sessions (tenant_id, user_id, updated_at, key, size);
