package provider

import (
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
)

// Limits of concurrent probes, of this process and of one tenant.
const (
	maxProbes       = 16
	maxTenantProbes = 4
)

// slots bounds the concurrent probes.
type slots struct {
	mu      sync.Mutex // guards the fields below
	used    int
	tenants map[string]int
}

func newSlots() *slots { return &slots{tenants: map[string]int{}} }

// take returns a function that frees the slot, or api.RateLimited.
func (s *slots) take(tenantID string) (free func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used >= maxProbes || s.tenants[tenantID] >= maxTenantProbes {
		return nil, &api.Error{Code: api.RateLimited, Message: "Too many probes are running: wait until they end.", RetryAfter: 5 * time.Second}
	}
	s.used++
	s.tenants[tenantID]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used--
		if s.tenants[tenantID]--; s.tenants[tenantID] == 0 {
			delete(s.tenants, tenantID)
		}
	}, nil
}
