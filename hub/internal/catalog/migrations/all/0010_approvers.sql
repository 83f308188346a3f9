-- approvers are those who may approve calls that wait: owner, maintainer or admin.
ALTER TABLE agents ADD COLUMN approvers TEXT NOT NULL DEFAULT 'owner';
