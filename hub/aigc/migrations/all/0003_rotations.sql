-- A rotation has no limit.
ALTER TABLE aigc_configs DROP COLUMN rotations;
ALTER TABLE aigc_configs DROP COLUMN rotations_since;
