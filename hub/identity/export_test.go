package identity

import "context"

// Sweep is what the worker does every 10 minutes.
func (s *Service) Sweep(ctx context.Context) { s.worker.sweep(ctx) }
