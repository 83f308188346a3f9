package deployment

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	endpointTTL  = 1500 * time.Millisecond
	maxEndpoints = 1 << 12 // at most 1 KiB each: only deployments are cached, whose names are bounded
)

// Endpoint is where the running deployment of an agent listens.
type Endpoint struct {
	URL     string       // of the runtime, without a path
	APIKey  agent.Secret // for the header x-api-key
	AgentID string       // in paths of the runtime
	Key     string       // the deployment key
}

// Endpoint returns the endpoint of an agent's deployment. It fails with wire.NotFound if the tenant
// has no such agent, with code.AgentNotDeployed if the agent has no deployment, and with
// wire.Unavailable if its runtime is not running. The result may be 1.5 s old, except that changes
// by this hub are visible immediately.
func (s *Service) Endpoint(ctx context.Context, tenantID, agentName string) (Endpoint, error) {
	e, err := s.endpoints.get(endpointKey{agentRef: agentRef{tenantID, agentName}}, func() (endpointEntry, error) {
		d, err := readDeployment(ctx, s.store.Read(), tenantID, agentName)
		return s.entryOf(d), err
	})
	return e.endpoint, s.missing(ctx, tenantID, agentName, cmp.Or(err, e.err))
}

// Models returns the names of the models of an agent and its subagents, in all revisions that may
// have runs. It returns none if one of them cannot be read.
func (s *Service) Models(ctx context.Context, q db.Querier, tenantID, agentName string) (models []string, err error) {
	d, err := readDeployment(ctx, q, tenantID, agentName)
	if errors.Is(err, errNoDeployment) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	for _, number := range append([]int64{d.Serving, d.Revision}, d.Draining...) {
		if number == 0 {
			continue
		}

		request, err := s.request(ctx, q, d, number)
		if db.Unavailable(err) {
			return nil, err
		}

		if err != nil {
			return nil, nil //nolint:nilerr // without its key, or of an older version
		}

		models = append(models, request.Config.Model)
		for _, subagent := range request.Config.Subagents {
			models = append(models, cmp.Or(subagent.Model, request.Config.Model))
		}
	}

	return models, nil
}

// Draining returns the URLs of the runtimes of a deployment but the one that serves, which url is.
// The runs of former revisions continue there. They accept the API key of the deployment. The
// driver is not called if there are none, and at most once at a time for a deployment.
func (s *Service) Draining(ctx context.Context, key, apiKey, url string) (urls []string, err error) {
	if s.driver == nil {
		return nil, nil
	}

	found, err, _ := s.drains.Do(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout) // others wait for it
		defer cancel()
		return s.runtimes(ctx, key, apiKey)
	})
	all, _ := found.([]string) // runtimes returns them
	for _, other := range all {
		if other != "" && other != url {
			urls = append(urls, other)
		}
	}

	return urls, err
}

// Replicas returns the URLs of all processes of a deployment if each has conversations of its own,
// with those of former revisions whose runs continue. Otherwise it returns none.
func (s *Service) Replicas(ctx context.Context, key string) (urls []string, err error) {
	if s.driver == nil {
		return nil, nil
	}

	obs, err := s.observe(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("find replicas: %w", err)
	}

	for _, r := range obs.Runtimes {
		if alive(r) {
			urls = append(urls, r.Replicas...)
		}
	}

	return urls, nil
}

// runtimes returns the URL of the runtime that serves, and those of others if a former revision
// drains. With an API key that was replaced, the row is not found.
func (s *Service) runtimes(ctx context.Context, key, apiKey string) (urls []string, err error) {
	d, err := findDeployment(ctx, s.store.Read(), digest(agent.Secret(apiKey)))
	if err == nil && len(d.Draining) == 0 {
		return []string{d.RuntimeURL}, nil
	}

	if err != nil && !errors.Is(err, errNoDeployment) {
		return nil, err
	}

	obs, err := s.observe(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("find runtimes: %w", err)
	}

	for _, r := range obs.Runtimes {
		if alive(r) {
			urls = append(urls, r.URL)
		}
	}

	return urls, nil
}

// observe returns the state of the deployment with a key.
func (s *Service) observe(ctx context.Context, key string) (deploy.Observed, error) {
	uid, err := readUID(ctx, s.store.Read(), key)
	if err != nil {
		return deploy.Observed{}, err
	}

	return s.driver.Observe(ctx, s.ref(key, uid))
}

// ref names a deployment of this database on a platform.
func (s *Service) ref(key, uid string) deploy.Ref {
	return deploy.Ref{Key: key, UID: uid, Owner: s.owner}
}

// Authorize is Endpoint for a caller with an API key. It fails with wire.Unauthenticated unless the
// key is that of the agent's deployment. The deployment is found by its key only: for any other
// key, the same statements run, whether the agent exists, is deployed, or is not.
func (s *Service) Authorize(ctx context.Context, tenantID, agentName, apiKey string) (Endpoint, error) {
	if apiKey == "" { // whatever a row has
		return Endpoint{}, wire.Unauthenticated
	}

	sum := digest(agent.Secret(apiKey))
	e, err := s.endpoints.get(endpointKey{digest: [sha256.Size]byte(sum)}, func() (endpointEntry, error) {
		d, err := findDeployment(ctx, s.store.Read(), sum)
		return s.entryOf(d), err
	})
	if errors.Is(err, errNoDeployment) {
		return Endpoint{}, wire.Unauthenticated
	}

	if err != nil {
		return Endpoint{}, err
	}

	if e.agentRef != (agentRef{tenantID, agentName}) || errors.Is(e.err, errNoDeployment) {
		return Endpoint{}, wire.Unauthenticated
	}

	return e.endpoint, e.err
}

func (s *Service) entryOf(d deployment) endpointEntry {
	e := endpointEntry{agentRef: d.agentRef()}
	if d.Key != "" {
		e.endpoint, e.err = s.endpointOf(d)
	}

	return e
}

func (s *Service) endpointOf(d deployment) (Endpoint, error) {
	switch {
	case d.Desired == desiredAbsent:
		return Endpoint{}, errNoDeployment
	case d.Desired == desiredStopped:
		return Endpoint{}, wire.Unavailable.New("The agent is stopped: start its deployment first.")
	case d.RuntimeURL == "" || d.State != wire.StateRunning && d.State != StateUnhealthy:
		return Endpoint{}, wire.Unavailable.New("The agent is not running yet: its deployment is " + d.State + ".")
	}

	content, err := s.open(d)
	if err != nil {
		return Endpoint{}, err
	}

	return Endpoint{URL: d.RuntimeURL, APIKey: content.APIKey, AgentID: d.AgentName, Key: d.Key}, nil
}

// Live returns the names of the agents of a tenant whose deployments have an endpoint, in order.
func (s *Service) Live(ctx context.Context, tenantID string) ([]string, error) {
	return db.Values[string](ctx, s.store.Read(), "read live deployments", `SELECT agent_name FROM deployments
		WHERE tenant_id = $1 AND desired = $2 AND runtime_url <> '' AND state IN ($3, $4) ORDER BY agent_name`,
		tenantID, desiredRunning, wire.StateRunning, StateUnhealthy)
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

// agentRef names an agent of a tenant.
type agentRef struct{ tenantID, name string }

func (d deployment) agentRef() agentRef { return agentRef{d.TenantID, d.AgentName} }

// endpointKey has an agent, or the digest of an API key.
type endpointKey struct {
	agentRef
	digest [sha256.Size]byte
}

type endpointEntry struct {
	agentRef
	endpoint Endpoint
	err      error
	readAt   time.Time
}

// endpointCache holds recent results of Endpoint and Authorize for deployments that exist.
type endpointCache struct {
	mu      sync.Mutex // guards the fields below
	entries map[endpointKey]endpointEntry
	changes uint64
}

// get returns an entry that is not older than endpointTTL, or calls read. It stores the result,
// unless forget was called in the meantime, because that may be older than the change.
func (c *endpointCache) get(key endpointKey, read func() (endpointEntry, error)) (endpointEntry, error) {
	now := time.Now()
	c.mu.Lock()
	e, ok := c.entries[key]
	changes := c.changes
	c.mu.Unlock()
	if ok && now.Sub(e.readAt) < endpointTTL {
		return e, nil
	}

	e, err := read()
	if err != nil {
		return e, err
	}

	e.readAt = now
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != changes {
		return e, nil
	}

	if len(c.entries) >= maxEndpoints {
		clear(c.entries)
	}

	c.entries[key] = e
	return e, nil
}

func (c *endpointCache) forget(ref agentRef) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	maps.DeleteFunc(c.entries, func(_ endpointKey, e endpointEntry) bool { return e.agentRef == ref })
}
