-- The images and files of messages. A row without a session is an upload that no message has yet; the others
-- are those of one session, with which they are deleted.
CREATE TABLE chat_files (
    tenant_id   TEXT NOT NULL,
    user_id     TEXT NOT NULL,
    id          TEXT NOT NULL, -- the SHA-256 of the type and the bytes, in hexadecimal
    session_key TEXT REFERENCES chat_sessions (key) ON DELETE CASCADE,
    media_type  TEXT NOT NULL,
    size        ${integer} NOT NULL, -- bytes
    stored_at   ${integer} NOT NULL, -- last
    data        ${bytes} NOT NULL
);
CREATE UNIQUE INDEX chat_files_uploaded ON chat_files (tenant_id, user_id, id) WHERE session_key IS NULL;
CREATE UNIQUE INDEX chat_files_of_session ON chat_files (session_key, id);
CREATE INDEX chat_files_of_user ON chat_files (tenant_id, user_id, id, media_type, size);
CREATE INDEX chat_files_unused ON chat_files (stored_at) WHERE session_key IS NULL;

-- The number of the images and files of a message, which its content names.
ALTER TABLE chat_messages ADD COLUMN files ${integer} NOT NULL DEFAULT 0;
