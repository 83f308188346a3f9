-- The budgets of agents and users: tokens, or billionths of the currency of the prices. 0 is no limit.
CREATE TABLE usage_budgets (
    tenant_id  TEXT NOT NULL,
    kind       TEXT NOT NULL CHECK (kind IN ('agent', 'user')),
    name       TEXT NOT NULL, -- of the agent, or the id of the user
    period     TEXT NOT NULL CHECK (period IN ('day', 'month')),
    unit       TEXT NOT NULL CHECK (unit IN ('tokens', 'cost')),
    soft       ${integer} NOT NULL,
    hard       ${integer} NOT NULL,
    reserve    ${integer} NOT NULL, -- of each run in progress
    updated_at ${integer} NOT NULL,
    PRIMARY KEY (tenant_id, kind, name)
);
