-- The revision that serves; 0: none. NULL until a hub of this version has read the row.
ALTER TABLE deployments ADD COLUMN serving BIGINT;

-- JSON: the attempt to make the revision ready next to the one that serves, and the revisions that
-- served and whose runs continue.
ALTER TABLE deployments ADD COLUMN rollout TEXT NOT NULL DEFAULT '';
ALTER TABLE deployments ADD COLUMN draining TEXT NOT NULL DEFAULT '[]';

-- The machine that has the runtimes; empty: every hub reaches them.
ALTER TABLE deployments ADD COLUMN machine TEXT NOT NULL DEFAULT '';

CREATE TABLE deployment_revisions (
    id          TEXT ${primary key}, -- <key>/<revision>
    tenant_id   TEXT NOT NULL,
    key         TEXT NOT NULL,
    revision    BIGINT NOT NULL,
    spec_hash   TEXT NOT NULL,
    sealed      ${bytes} NOT NULL, -- the request
    size        BIGINT NOT NULL,   -- of sealed, in bytes
    changes     TEXT NOT NULL,     -- JSON: what differs from the revision before it
    ready       BOOLEAN NOT NULL,  -- the agent has been ready
    deployed_at BIGINT NOT NULL,
    deployed_by TEXT NOT NULL,
    UNIQUE (key, revision)
);

-- The files of revisions, so that a revision can be deployed again.
CREATE TABLE deployment_files (
    artifact    TEXT NOT NULL,
    revision_id TEXT NOT NULL REFERENCES deployment_revisions (id) ON DELETE CASCADE,
    PRIMARY KEY (artifact, revision_id)
);
CREATE INDEX deployment_files_by_revision ON deployment_files (revision_id);
