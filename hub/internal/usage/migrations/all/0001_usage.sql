-- The tokens of a run by model: a subagent may have another model than its agent. Tokens that were read from or written to
-- a cache are not in input_tokens; reasoning_tokens are a part of output_tokens. The cost is in billionths of the
-- currency of the prices, by the prices as of the end of the run.
CREATE TABLE usage_runs (
    tenant_id          TEXT NOT NULL,
    run_id             TEXT NOT NULL,
    model              TEXT NOT NULL,
    agent_name         TEXT NOT NULL,
    user_id            TEXT NOT NULL,
    ended_at           ${integer} NOT NULL,
    input_tokens       ${integer} NOT NULL,
    cache_read_tokens  ${integer} NOT NULL,
    cache_write_tokens ${integer} NOT NULL,
    output_tokens      ${integer} NOT NULL,
    reasoning_tokens   ${integer} NOT NULL,
    cost               ${integer} NOT NULL,
    PRIMARY KEY (tenant_id, run_id, model)
);

-- The sums of usage_runs by day, in days since 1970-01-01 UTC, so that a report reads few rows. The slice names
-- the dimensions that the rows have: agent (by agent and model), user, and all. The others are ''.
CREATE TABLE usage_days (
    tenant_id          TEXT NOT NULL,
    slice              TEXT NOT NULL CHECK (slice IN ('agent', 'user', 'all')),
    day                ${integer} NOT NULL,
    agent_name         TEXT NOT NULL,
    user_id            TEXT NOT NULL,
    model              TEXT NOT NULL,
    user_name          TEXT NOT NULL, -- of the last run
    runs               ${integer} NOT NULL,
    input_tokens       ${integer} NOT NULL,
    cache_read_tokens  ${integer} NOT NULL,
    cache_write_tokens ${integer} NOT NULL,
    output_tokens      ${integer} NOT NULL,
    reasoning_tokens   ${integer} NOT NULL,
    cost               ${integer} NOT NULL,
    PRIMARY KEY (tenant_id, slice, day, agent_name, user_id, model)
);
CREATE INDEX usage_days_of_agent ON usage_days (tenant_id, slice, agent_name, user_id, day);
CREATE INDEX usage_days_of_user ON usage_days (tenant_id, slice, user_id, day);
