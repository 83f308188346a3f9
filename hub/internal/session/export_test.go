package session

import "context"

// Sweep runs the sweep of the worker.
func (s *Service) Sweep(ctx context.Context) { s.worker.sweep(ctx) }
