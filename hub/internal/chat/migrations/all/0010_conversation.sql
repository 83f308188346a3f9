-- What a client that carries its conversation has of the session, see relay.Conversation. Empty: no
-- conversation continues the session.
ALTER TABLE chat_sessions ADD COLUMN conversation TEXT NOT NULL DEFAULT '';
CREATE INDEX chat_sessions_conversation ON chat_sessions (tenant_id, user_id, agent_name, conversation, updated_at) WHERE conversation <> '';
