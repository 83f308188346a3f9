-- The run of a deleted chat holds the reserves of its budgets until it has ended.
ALTER TABLE chat_runs DROP CONSTRAINT chat_runs_session_key_fkey;
