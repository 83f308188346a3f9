-- The run of a deleted chat holds the reserves of its budgets until it has ended.
CREATE TABLE chat_runs_of_any (
    run_id      TEXT PRIMARY KEY,
    tenant_id   TEXT NOT NULL,
    session_key TEXT NOT NULL UNIQUE,
    worker_id   TEXT NOT NULL, -- of the hub that relays the answer
    cancel      BOOLEAN NOT NULL DEFAULT FALSE,
    alive_until INTEGER NOT NULL,
    user_id     TEXT NOT NULL DEFAULT '',
    agent_name  TEXT NOT NULL DEFAULT ''
);
INSERT INTO chat_runs_of_any SELECT run_id, tenant_id, session_key, worker_id, cancel, alive_until, user_id, agent_name FROM chat_runs;
DROP TABLE chat_runs;
ALTER TABLE chat_runs_of_any RENAME TO chat_runs;
CREATE INDEX chat_runs_of_user ON chat_runs (tenant_id, user_id);
CREATE INDEX chat_runs_of_agent ON chat_runs (tenant_id, agent_name);
