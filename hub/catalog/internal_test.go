package catalog

// ContentHash returns the hash of an agent.
func ContentHash(a Agent, all map[bound]string) (string, error) { return contentHash(a, all) }
