-- A reserve whose hub is not in the table hubs is that of a run whose hub was killed.
ALTER TABLE usage_reserves DROP COLUMN alive_until;
