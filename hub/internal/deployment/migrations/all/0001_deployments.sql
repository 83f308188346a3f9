-- Times are Unix microseconds, UTC. The key is unique across tenants: <org>-<name> may be that of two agents.
CREATE TABLE deployments (
    key         TEXT ${primary key},
    tenant_id   TEXT NOT NULL,
    agent_name  TEXT NOT NULL,
    desired     TEXT NOT NULL CHECK (desired IN ('running', 'stopped', 'absent')),
    edition     BIGINT NOT NULL,  -- incremented by each change of a user
    revision    BIGINT NOT NULL,  -- of the request
    purge       BOOLEAN NOT NULL, -- the driver deletes the former deployment of this key first
    spec_hash   TEXT NOT NULL,
    sealed      ${bytes} NOT NULL,   -- the request, the API key and the salt of spec_hash
    linked_at   BIGINT NOT NULL,  -- when the links in the request were created
    deployed_at BIGINT NOT NULL,
    deployed_by TEXT NOT NULL,

    -- What the holder of the lease observed.
    state         TEXT NOT NULL,
    health        TEXT NOT NULL DEFAULT 'unknown',
    runtime_url   TEXT NOT NULL DEFAULT '',
    conditions    TEXT NOT NULL DEFAULT '[]',
    error         TEXT NOT NULL DEFAULT '',
    restart_count BIGINT NOT NULL DEFAULT 0,
    failures      BIGINT NOT NULL DEFAULT 0, -- in sequence
    retry_at      BIGINT,
    counted       BIGINT,                    -- the start of the last run whose end is in failures
    started_at    BIGINT,

    lease_holder TEXT NOT NULL DEFAULT '',
    lease_fence  BIGINT NOT NULL DEFAULT 0, -- higher for each new holder
    lease_beat   BIGINT NOT NULL DEFAULT 0, -- incremented by the holder while it is alive

    UNIQUE (tenant_id, agent_name)
);
CREATE INDEX deployments_by_holder ON deployments (lease_holder);

-- The next fence. Fences increase also when a deployment is deleted and created again.
CREATE TABLE deployment_fence (
    value BIGINT NOT NULL
);
INSERT INTO deployment_fence (value) VALUES (0);
