package identity

import (
	"context"
	"strings"
)

// CheapHashes makes the hashes of passwords take little time and memory.
func CheapHashes(c *Config) { c.hashCost = cost{memory: 64, time: 1, threads: 1} }

// FullHashes undoes CheapHashes.
func FullHashes(c *Config) { c.hashCost = passwordCost }

// Sweep runs the sweep of the worker.
func (s *Service) Sweep(ctx context.Context) { s.worker.sweep(ctx) }

// HoldHashes takes all slots of password hashes. The returned function passes them to all waiting
// hashes and returns the parties of each, in that order.
func (s *Service) HoldHashes() (pass func() []string) {
	q := s.hasher.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free = 0
	return func() (order []string) {
		q.mu.Lock()
		defer q.mu.Unlock()
		for w := q.next(); w != nil; w = q.next() {
			order = append(order, strings.Join(w.parties, ", "))
			w.done <- nil
		}
		q.free = 1 - len(order) // each of them releases a slot
		return order
	}
}
