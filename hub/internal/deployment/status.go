package deployment

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// States of a deployment.
const (
	StateNotDeployed = "not_deployed"
	StateDeploying   = "deploying" // the driver gets the request
	StateStarting    = "starting"  // the runtime runs, but its agent is not ready; or it will be started again
	StateRunning     = "running"
	StateUnhealthy   = "unhealthy" // it was running, and no longer responds
	StateStopping    = "stopping"
	StateStopped     = "stopped"
	StateFailed      = "failed" // it is started again each minute if it was ready before, otherwise by a user
	StateDeleting    = "deleting"
)

// Values of Status.Health.
const (
	healthUnknown   = "unknown"
	healthHealthy   = "healthy"
	healthUnhealthy = "unhealthy"
)

// Status is the state of the deployment of an agent.
type Status struct {
	AgentName     string      `json:"agentName"`
	DeploymentKey string      `json:"deploymentKey"`
	Desired       string      `json:"desired"`
	State         string      `json:"state"`
	Health        string      `json:"health"`
	RuntimeURL    string      `json:"runtimeUrl,omitempty"`
	APIKey        string      `json:"apiKey,omitempty"`
	PublicURL     string      `json:"publicUrl"`
	Backend       string      `json:"backend"`
	Revision      int64       `json:"revision,omitempty"`        // that was deployed last
	Serving       int64       `json:"servingRevision,omitempty"` // that has the runs
	SpecHash      string      `json:"specHash,omitempty"`
	ConfigDrift   bool        `json:"configDrift"` // the configuration of the agent differs from the deployed one
	RestartCount  int         `json:"restartCount"`
	Conditions    []Condition `json:"conditions"`
	StartedAt     wire.Time   `json:"startedAt,omitzero"`
	DeployedAt    wire.Time   `json:"deployedAt,omitzero"`
	DeployedBy    string      `json:"deployedBy,omitempty"`
	Error         string      `json:"error,omitempty"`
}

// Status returns the status of an agent's deployment. It fails with wire.NotFound if the tenant has
// no such agent.
func (s *Service) Status(ctx context.Context, caller api.Caller, name string) (Status, error) {
	if err := s.allow(caller, rbac.AdminRead); err != nil {
		return Status{}, err
	}

	if rbac.AdminWrite.Check(caller) != nil {
		if err := s.exists(ctx, caller, name); err != nil { // or the caller has no access
			return Status{}, err
		}
	}

	d, err := readDeployment(ctx, s.store.Read(), caller.TenantID, name)
	if errors.Is(err, errNoDeployment) {
		return Status{
			AgentName: name, DeploymentKey: deploymentKey(caller.TenantID, name), Desired: desiredAbsent, State: StateNotDeployed, Health: healthUnknown,
			PublicURL: s.publicURL(caller.TenantID, name), Backend: s.driver.Backend(), Conditions: []Condition{},
		}, s.exists(ctx, caller, name)
	}

	if err != nil {
		return Status{}, err
	}

	return s.status(ctx, caller, d)
}

// exists returns wire.NotFound if the caller has no access to such an agent.
func (s *Service) exists(ctx context.Context, caller api.Caller, name string) error {
	_, err := s.cfg.Catalog.AgentEnabled(ctx, caller, name)
	return err
}

// status returns the status of a deployment, with its drift from the configuration.
func (s *Service) status(ctx context.Context, caller api.Caller, d deployment) (Status, error) {
	config, err := s.cfg.Catalog.Deployment(ctx, d.TenantID, d.AgentName)
	if errors.Is(err, wire.NotFound) {
		return Status{}, err
	}

	if err != nil { // such as a provider without a key: the deployment continues without it
		s.store.Logger.Warn("read configuration of agent", "tenant", d.TenantID, "agent", d.AgentName, "err", err)
		return s.compared(ctx, caller, d, nil)
	}

	return s.compared(ctx, caller, d, &config)
}

// compared returns the status of a deployment. It has drifted unless the configuration is the
// deployed one.
func (s *Service) compared(ctx context.Context, caller api.Caller, d deployment, config *agent.Agent) (Status, error) {
	c, err := s.open(d)
	if err != nil {
		return Status{}, err
	}

	drift := true
	if config != nil {
		hash, err := hashOf(newRequest(d.Key, d.AgentName, *config), c.Salt)
		if err != nil {
			return Status{}, err
		}

		drift = hash != d.SpecHash
	}

	st := Status{
		AgentName: d.AgentName, DeploymentKey: d.Key, Desired: d.Desired, State: d.State, Health: d.Health, RuntimeURL: d.RuntimeURL,
		PublicURL: s.publicURL(d.TenantID, d.AgentName), Backend: s.driver.Backend(),
		Revision: d.Revision, Serving: d.Serving, SpecHash: d.SpecHash, ConfigDrift: drift, RestartCount: d.RestartCount, Conditions: []Condition{},
		StartedAt: wire.Time{Time: d.StartedAt}, DeployedAt: wire.Time{Time: d.DeployedAt}, DeployedBy: d.DeployedBy, Error: d.Error,
	}
	for _, c := range d.Conditions {
		st.Conditions = append(st.Conditions, Condition{Type: c.Type, Status: c.Status, Code: c.Code, Message: c.Message, ChangedAt: wire.Time{Time: c.ChangedAt}})
	}

	if !s.readsKeys(caller.RoleNow) {
		return st, nil
	}

	if err := s.revealKey(ctx, caller, d); err != nil {
		return Status{}, err
	}

	st.APIKey = string(c.APIKey)
	return st, nil
}
