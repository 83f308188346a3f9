-- The sums of usage_days by seven days, the first of which has a number that seven divides: a report of many days reads the
-- whole weeks of its range here.
CREATE TABLE usage_weeks (
    tenant_id          TEXT NOT NULL,
    slice              TEXT NOT NULL CHECK (slice IN ('agent', 'user', 'all')),
    day                ${integer} NOT NULL, -- the first of the seven
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
CREATE INDEX usage_weeks_of_agent ON usage_weeks (tenant_id, slice, agent_name, user_id, day);
CREATE INDEX usage_weeks_of_user ON usage_weeks (tenant_id, slice, user_id, day);

INSERT INTO usage_weeks (tenant_id, slice, day, agent_name, user_id, model, user_name,
    runs, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost)
SELECT tenant_id, slice, day - day % 7, agent_name, user_id, model, MAX(user_name),
    SUM(runs), SUM(input_tokens), SUM(cache_read_tokens), SUM(cache_write_tokens), SUM(output_tokens), SUM(reasoning_tokens), SUM(cost)
FROM usage_days GROUP BY tenant_id, slice, day - day % 7, agent_name, user_id, model;
