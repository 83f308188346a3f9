-- hash_key is the key of the content hashes of a tenant, in hex. Without it, a hash of a prompt would
-- confirm a guess. Empty: the next read of the agents makes it.
ALTER TABLE catalog_heads ADD COLUMN hash_key TEXT NOT NULL DEFAULT '';
