-- Rows of runs that are older than the retention are deleted.
CREATE INDEX usage_runs_ended ON usage_runs (ended_at);
