-- A row whose hub is not in the table hubs is free.
ALTER TABLE deployments RENAME COLUMN lease_holder TO hub_id;
ALTER TABLE deployments DROP COLUMN lease_beat;
