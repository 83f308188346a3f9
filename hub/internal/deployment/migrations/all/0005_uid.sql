-- Identifies a deployment on a platform until it is deleted. It is empty if an older version created it.
ALTER TABLE deployments ADD COLUMN uid TEXT NOT NULL DEFAULT '';

-- What a platform still has of these deployments is deleted.
CREATE TABLE deployment_tombstones (
    key        TEXT NOT NULL,
    uid        TEXT NOT NULL,
    deleted_at BIGINT NOT NULL,
    PRIMARY KEY (key, uid)
);
INSERT INTO deployment_tombstones (key, uid, deleted_at) SELECT key, '', deployed_at FROM deployments WHERE purge AND desired <> 'absent';
UPDATE deployments SET uid = 'second' WHERE purge AND desired <> 'absent';
ALTER TABLE deployments DROP COLUMN purge;
ALTER TABLE deployments DROP COLUMN lease_fence;

ALTER TABLE deployment_fence RENAME TO deployment_owner;
ALTER TABLE deployment_owner DROP COLUMN value;
