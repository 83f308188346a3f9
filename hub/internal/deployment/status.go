package deployment

import (
	"context"
	"errors"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Values of the health of a deployment.
const (
	healthUnknown   = "unknown"
	healthHealthy   = "healthy"
	healthUnhealthy = "unhealthy"
)

// Status returns the status of an agent's deployment. It fails with wire.NotFound if the tenant has
// no such agent.
func (s *Service) Status(ctx context.Context, caller api.Caller, name string) (wire.Deployment, error) {
	if err := s.allow(caller, rbac.AdminRead); err != nil {
		return wire.Deployment{}, err
	}

	if rbac.AdminWrite.Check(caller) != nil {
		if err := s.exists(ctx, caller, name); err != nil { // or the caller has no access
			return wire.Deployment{}, err
		}
	}

	d, err := readDeployment(ctx, s.store.Read(), caller.TenantID, name)
	if errors.Is(err, errNoDeployment) {
		return wire.Deployment{
			AgentName: name, DeploymentKey: deploymentKey(caller.TenantID, name), Desired: desiredAbsent, State: wire.StateNotDeployed, Health: healthUnknown,
			PublicURL: s.publicURL(caller.TenantID, name), Backend: s.driver.Backend(), Conditions: []wire.Condition{},
		}, s.exists(ctx, caller, name)
	}

	if err != nil {
		return wire.Deployment{}, err
	}

	return s.status(ctx, caller, d)
}

// exists returns wire.NotFound if the caller has no access to such an agent.
func (s *Service) exists(ctx context.Context, caller api.Caller, name string) error {
	_, err := s.cfg.Catalog.AgentEnabled(ctx, caller, name)
	return err
}

// status returns the status of a deployment, with its drift from the configuration.
func (s *Service) status(ctx context.Context, caller api.Caller, d deployment) (wire.Deployment, error) {
	config, err := s.cfg.Catalog.Deployment(ctx, d.TenantID, d.AgentName)
	if errors.Is(err, wire.NotFound) {
		return wire.Deployment{}, err
	}

	if err != nil { // such as a provider without a key: the deployment continues without it
		s.store.Logger.Warn("read configuration of agent", "tenant", d.TenantID, "agent", d.AgentName, "err", err)
		return s.compared(ctx, caller, d, nil)
	}

	return s.compared(ctx, caller, d, &config)
}

// compared returns the status of a deployment. It has drifted unless the configuration is the
// deployed one.
func (s *Service) compared(ctx context.Context, caller api.Caller, d deployment, config *agent.Agent) (wire.Deployment, error) {
	c, err := s.open(d)
	if err != nil {
		return wire.Deployment{}, err
	}

	drift := true
	if config != nil {
		hash, err := hashOf(newRequest(d.Key, d.AgentName, *config), c.Salt)
		if err != nil {
			return wire.Deployment{}, err
		}

		drift = hash != d.SpecHash
	}

	st := wire.Deployment{
		AgentName: d.AgentName, DeploymentKey: d.Key, Desired: d.Desired, State: d.State, Health: d.Health, RuntimeURL: d.RuntimeURL,
		PublicURL: s.publicURL(d.TenantID, d.AgentName), Backend: s.driver.Backend(),
		Revision: d.Revision, ServingRevision: d.Serving, SpecHash: d.SpecHash, ConfigDrift: drift, RestartCount: d.RestartCount, Conditions: append([]wire.Condition{}, d.Conditions...),
		StartedAt: wire.Time{Time: d.StartedAt}, DeployedAt: wire.Time{Time: d.DeployedAt}, DeployedBy: d.DeployedBy, Error: d.Error,
	}
	if !s.readsKeys(caller.RoleNow) {
		return st, nil
	}

	if err := s.revealKey(ctx, caller, d); err != nil {
		return wire.Deployment{}, err
	}

	st.APIKey = string(c.APIKey)
	return st, nil
}
