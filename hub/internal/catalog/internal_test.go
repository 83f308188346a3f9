package catalog

// ContentHash returns the hash of an agent.
func ContentHash(a Agent, all map[bound]string) (string, error) { return contentHash("key", a, all) }

// Uploads returns the number of uploads of a tenant that are checked or wait.
func (s *Service) Uploads(tenantID string) int { return s.checks.Waiting(tenantID) }
