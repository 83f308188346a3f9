package catalog

// ContentHash returns the hash of an agent.
func ContentHash(a Agent, all map[component]string) (string, error) { return contentHash(a, all) }
