package identity

import "context"

// CheapHashes makes the hashes of passwords take little time and memory.
func CheapHashes(c *Config) { c.hashCost = cost{memory: 64, time: 1, threads: 1} }

// FullHashes undoes CheapHashes.
func FullHashes(c *Config) { c.hashCost = passwordCost }

// Sweep runs the sweep of the worker.
func (s *Service) Sweep(ctx context.Context) { s.worker.sweep(ctx) }
