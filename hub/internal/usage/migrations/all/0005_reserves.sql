-- The runs in progress outside of chats whose agents have a hard limit. Each counts with the reserve of the budget until the
-- time alive_until, which its hub extends while the run is in progress.
CREATE TABLE usage_reserves (
    run_id      TEXT PRIMARY KEY,
    tenant_id   TEXT NOT NULL,
    agent_name  TEXT NOT NULL,
    hub_id      TEXT NOT NULL,
    alive_until ${integer} NOT NULL
);
CREATE INDEX usage_reserves_of_agent ON usage_reserves (tenant_id, agent_name);
CREATE INDEX usage_reserves_of_hub ON usage_reserves (hub_id);
