-- settings_enc has the sealed settings of the runtime that have no column of their own, as JSON:
-- the query of the base URL, further headers and body fields, and how the key is sent.
ALTER TABLE providers ADD COLUMN settings_enc ${bytes};
