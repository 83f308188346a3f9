-- A run whose hub is not in the table hubs is free.
ALTER TABLE chat_runs RENAME COLUMN worker_id TO hub_id;
ALTER TABLE chat_runs DROP COLUMN alive_until;
CREATE INDEX chat_runs_of_hub ON chat_runs (hub_id);
