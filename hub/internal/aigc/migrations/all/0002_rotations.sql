-- signed: the key signed a label, and is not deleted. rotations counts the keys that followed another
-- one since rotations_since.
ALTER TABLE aigc_keys ADD COLUMN signed BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE aigc_configs ADD COLUMN rotations BIGINT NOT NULL DEFAULT 0;
ALTER TABLE aigc_configs ADD COLUMN rotations_since BIGINT NOT NULL DEFAULT 0;
