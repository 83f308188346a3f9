package deploy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	endpointTTL  = 1500 * time.Millisecond
	maxEndpoints = 1 << 14
)

// Endpoint is where the running deployment of an agent listens.
type Endpoint struct {
	URL     string       // of the runtime, without a path
	APIKey  agent.Secret // for the header x-api-key
	AgentID string       // in paths of the runtime
	Key     string       // the deployment key
}

// Endpoint returns the endpoint of an agent's deployment. It fails with api.AgentNotDeployed if the
// agent has no deployment, and with api.Unavailable if its runtime is not running. The result may
// be 1.5 s old, except that changes by this hub are visible immediately.
func (s *Service) Endpoint(ctx context.Context, tenantID, agentName string) (Endpoint, error) {
	at := place{tenantID, agentName}
	e, changes, ok := s.endpoints.get(at, time.Now())
	if ok {
		return e.endpoint, e.err
	}
	e = endpointEntry{readAt: time.Now()}
	d, err := readDeployment(ctx, s.db.Read(), tenantID, agentName)
	switch {
	case errors.Is(err, errNoDeployment):
		e.err = api.AgentNotDeployed
	case err != nil:
		return Endpoint{}, err
	default:
		e.endpoint, e.err = s.endpointOf(d)
	}
	s.endpoints.put(at, e, changes)
	return e.endpoint, e.err
}

func (s *Service) endpointOf(d deployment) (Endpoint, error) {
	switch {
	case d.Desired == desiredAbsent:
		return Endpoint{}, api.AgentNotDeployed
	case d.Desired == desiredStopped:
		return Endpoint{}, api.Unavailable.New("The agent is stopped: start its deployment first.")
	case d.RuntimeURL == "" || d.State != StateRunning && d.State != StateUnhealthy:
		return Endpoint{}, api.Unavailable.New("The agent is not running yet: its deployment is " + d.State + ".")
	}
	content, err := s.open(d)
	if err != nil {
		return Endpoint{}, err
	}
	return Endpoint{URL: d.RuntimeURL, APIKey: content.APIKey, AgentID: d.AgentName, Key: d.Key}, nil
}

// Deployed reports whether the agent has a deployment, running or stopped.
func (s *Service) Deployed(ctx context.Context, q db.Querier, tenantID, agentName string) (bool, error) {
	d, err := readDeployment(ctx, q, tenantID, agentName)
	if errors.Is(err, errNoDeployment) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check deployment: %w", err)
	}
	return d.Desired != desiredAbsent, nil
}

// place is an agent of a tenant.
type place struct{ tenantID, agentName string }

type endpointEntry struct {
	endpoint Endpoint
	err      error
	readAt   time.Time
}

// endpointCache holds recent results of Endpoint.
type endpointCache struct {
	mu      sync.Mutex // guards the fields below
	entries map[place]endpointEntry
	changes uint64
}

// get also returns the number of changes so far, for put.
func (c *endpointCache) get(at place, now time.Time) (e endpointEntry, changes uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok = c.entries[at]
	return e, c.changes, ok && now.Sub(e.readAt) < endpointTTL
}

// put stores an entry, unless forget was called since get: the entry may be older than the change.
func (c *endpointCache) put(at place, e endpointEntry, changes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != changes {
		return
	}
	if len(c.entries) >= maxEndpoints {
		clear(c.entries)
	}
	c.entries[at] = e
}

func (c *endpointCache) forget(at place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	delete(c.entries, at)
}
