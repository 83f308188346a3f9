-- Sessions of programs that speak another protocol. SQLite cannot change a CHECK.
ALTER TABLE chat_sessions ADD COLUMN came_from TEXT NOT NULL DEFAULT 'hub' CHECK (came_from IN ('hub', 'push', 'api'));
UPDATE chat_sessions SET came_from = source WHERE source <> 'hub';
ALTER TABLE chat_sessions DROP COLUMN source;
ALTER TABLE chat_sessions RENAME COLUMN came_from TO source;

-- A session that is deleted with the end of its answer, unless that waits.
ALTER TABLE chat_sessions ADD COLUMN ephemeral BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX chat_sessions_ephemeral ON chat_sessions (updated_at) WHERE ephemeral;
