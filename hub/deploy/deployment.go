package deploy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Values of deployment.Desired.
const (
	desiredRunning = "running"
	desiredStopped = "stopped"
	desiredAbsent  = "absent"
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
	StateFailed      = "failed" // it is not started again until a user deploys or starts it
	StateDeleting    = "deleting"
)

// Values of Status.Health.
const (
	healthUnknown   = "unknown"
	healthHealthy   = "healthy"
	healthUnhealthy = "unhealthy"
)

// Types of conditions.
const (
	conditionApplied = "applied" // the driver has the request
	conditionReady   = "ready"   // the agent can be called
)

// Condition is one aspect of the state of a deployment.
type Condition struct {
	Type      string   `json:"type"` // applied, ready or restored
	Status    bool     `json:"status"`
	Message   string   `json:"message,omitempty"`
	ChangedAt api.Time `json:"changedAt"`
}

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
	SpecHash      string      `json:"specHash,omitempty"`
	ConfigDrift   bool        `json:"configDrift"` // the configuration of the agent differs from the deployed one
	RestartCount  int         `json:"restartCount"`
	Conditions    []Condition `json:"conditions"`
	StartedAt     api.Time    `json:"startedAt,omitzero"`
	DeployedAt    api.Time    `json:"deployedAt,omitzero"`
	DeployedBy    string      `json:"deployedBy,omitempty"`
	Error         string      `json:"error,omitempty"`
}

// Status returns the status of an agent's deployment. It fails with api.NotFound if the tenant has
// no such agent.
func (s *Service) Status(ctx context.Context, caller api.Caller, name string) (Status, error) {
	if err := s.allow(caller, rbac.AdminRead); err != nil {
		return Status{}, err
	}
	d, err := readDeployment(ctx, s.store.Read(), caller.TenantID, name)
	if errors.Is(err, errNoDeployment) {
		return Status{
			AgentName: name, DeploymentKey: deploymentKey(caller.TenantID, name), Desired: desiredAbsent, State: StateNotDeployed, Health: healthUnknown,
			PublicURL: s.publicURL(caller.TenantID, name), Backend: s.driver.Backend(), Conditions: []Condition{},
		}, s.exists(ctx, caller.TenantID, name)
	}
	if err != nil {
		return Status{}, err
	}
	return s.status(ctx, caller, d)
}

// exists returns api.NotFound if the tenant has no such agent.
func (s *Service) exists(ctx context.Context, tenantID, name string) error {
	_, err := s.cfg.Catalog.AgentEnabled(ctx, tenantID, name)
	return err
}

// status returns the status of a deployment, with its drift from the configuration.
func (s *Service) status(ctx context.Context, caller api.Caller, d deployment) (Status, error) {
	config, err := s.cfg.Catalog.Deployment(ctx, d.TenantID, d.AgentName)
	if errors.Is(err, api.NotFound) {
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
		hash, err := newRequest(d.Key, d.AgentName, "", *config).hash(c.Salt)
		if err != nil {
			return Status{}, err
		}
		drift = hash != d.SpecHash
	}
	st := Status{
		AgentName: d.AgentName, DeploymentKey: d.Key, Desired: d.Desired, State: d.State, Health: d.Health, RuntimeURL: d.RuntimeURL,
		APIKey: string(c.APIKey), PublicURL: s.publicURL(d.TenantID, d.AgentName), Backend: s.driver.Backend(), SpecHash: d.SpecHash, ConfigDrift: drift,
		RestartCount: d.RestartCount, Conditions: []Condition{},
		StartedAt: api.Time(d.StartedAt), DeployedAt: api.Time(d.DeployedAt), DeployedBy: d.DeployedBy, Error: d.Error,
	}
	for _, c := range d.Conditions {
		st.Conditions = append(st.Conditions, Condition{Type: c.Type, Status: c.Status, Message: c.Message, ChangedAt: api.Time(c.ChangedAt)})
	}
	if !s.readsKeys(caller.RoleNow) {
		st.APIKey = ""
		return st, nil
	}
	return st, s.revealKey(ctx, caller, d)
}

// allow returns an error if the caller lacks the permission, or if there is no driver.
func (s *Service) allow(caller api.Caller, group rbac.Group) error {
	if err := group.Check(caller); err != nil {
		return err
	}
	if s.driver == nil {
		return api.DeployerUnavailable.New("This hub has no deployer: configure one with DEPLOYER.")
	}
	return nil
}

// Options are the options of a deploy.
type Options struct {
	Force bool `json:"force"` // redeploys an unchanged configuration
}

// Deploy deploys the current configuration of an agent, and starts it if it is stopped. It has no
// effect on a running deployment of the same configuration, unless forced. It does not wait for the
// runtime. It fails with api.DeploymentKeyTaken if the agent of another organization has the key.
func (s *Service) Deploy(ctx context.Context, caller api.Caller, name string, in Options) (Status, error) {
	if err := s.allow(caller, rbac.AdminWrite); err != nil {
		return Status{}, err
	}
	config, err := s.cfg.Catalog.Deployment(ctx, caller.TenantID, name)
	if err != nil {
		return Status{}, err
	}
	// The lock also excludes concurrent calls for the same agent.
	lock := func(ctx context.Context, tx *sql.Tx, tenantID string) error {
		return s.cfg.Catalog.LockAgent(ctx, tx, tenantID, name)
	}
	var d deployment
	err = s.store.Change(ctx, store.Change{Caller: caller, Lock: lock}, func(tx *store.Tx) (err error) {
		d, err = s.deploy(ctx, tx, name, config, in.Force)
		return err
	})
	if err != nil {
		return Status{}, err
	}
	return s.compared(ctx, caller, d, &config)
}

func (s *Service) deploy(ctx context.Context, tx *store.Tx, name string, config agent.Agent, force bool) (deployment, error) {
	d, err := lockDeployment(ctx, tx, tx.Caller.TenantID, name)
	created := errors.Is(err, errNoDeployment)
	if err != nil && !created {
		return d, err
	}
	c := newContent()
	switch {
	case created:
		d = deployment{Key: deploymentKey(tx.Caller.TenantID, name), TenantID: tx.Caller.TenantID, AgentName: name, Edition: 1}
		d.Holder, d.Health = s.reconciler.id, healthUnknown
		if d.Fence, err = nextFence(ctx, tx); err != nil {
			return d, err
		}
	case d.Desired == desiredAbsent: // it gets a new key
		d.Rotation = ""
		if err := deleteReaders(ctx, tx, d.TenantID, d.KeyDigest); err != nil {
			return d, err
		}
	default:
		if c, err = s.open(d); err != nil {
			return d, err
		}
	}
	c.Request = newRequest(d.Key, name, c.APIKey, config)
	hash, err := c.Request.hash(c.Salt)
	if err != nil {
		return d, err
	}
	if !created && !force && d.Desired == desiredRunning && d.SpecHash == hash && d.State != StateFailed {
		return d, nil
	}
	if err := s.seal(&d, c); err != nil {
		return d, err
	}
	d.Desired = desiredRunning
	d.SpecHash = hash
	d.State = StateDeploying
	d.Revision++
	d.LinkedAt = tx.Now
	d.DeployedAt = tx.Now
	d.DeployedBy = tx.Caller.UserName
	d.Error = ""
	tx.Record(actionDeploy.Record(d.event(tx.Caller), deployDetail{DeploymentKey: d.Key, SpecHash: hash, Force: force}))
	tx.AfterCommit(func() { s.changed(d) })
	if created {
		return d, insertDeployment(ctx, tx, d)
	}
	return updateDesired(ctx, tx, d)
}

// Stop stops the runtime of an agent's deployment. It fails with api.AgentNotDeployed if there is
// none.
func (s *Service) Stop(ctx context.Context, caller api.Caller, name string) (Status, error) {
	return s.changeState(ctx, caller, name, actionStop, func(d *deployment) bool {
		changed := d.Desired != desiredStopped
		d.Desired, d.State = desiredStopped, StateStopping
		return changed
	})
}

// Start starts the runtime of a stopped or failed deployment, with the configuration that was
// deployed. It fails with api.AgentNotDeployed if there is none.
func (s *Service) Start(ctx context.Context, caller api.Caller, name string) (Status, error) {
	return s.changeState(ctx, caller, name, actionStart, func(d *deployment) bool {
		changed := d.Desired != desiredRunning || d.State == StateFailed
		d.Desired, d.State = desiredRunning, StateStarting
		return changed
	})
}

// Delete deletes the deployment of an agent with its data. It does not wait for the runtime, and
// has no effect if there is no deployment.
func (s *Service) Delete(ctx context.Context, caller api.Caller, name string) error {
	_, err := s.change(ctx, caller, name, func(ctx context.Context, tx *store.Tx, d deployment) (deployment, error) {
		d.Desired, d.State, d.Purge = desiredAbsent, StateDeleting, true
		tx.Record(actionUndeploy.Record(d.event(caller), keyDetail{d.Key}))
		return updateDesired(ctx, tx, d)
	})
	if errors.Is(err, api.AgentNotDeployed) {
		return nil
	}
	return err
}

// changeState changes the desired state of a deployment, unless apply reports that it is reached.
func (s *Service) changeState(ctx context.Context, caller api.Caller, name string, action auditlog.Action[keyDetail], apply func(*deployment) bool) (Status, error) {
	d, err := s.change(ctx, caller, name, func(ctx context.Context, tx *store.Tx, before deployment) (deployment, error) {
		d := before
		if !apply(&d) {
			return before, nil
		}
		tx.Record(action.Record(d.event(caller), keyDetail{d.Key}))
		return updateDesired(ctx, tx, d)
	})
	if err != nil {
		return Status{}, err
	}
	return s.status(ctx, caller, d)
}

// change makes one change of a deployment, and makes it effective in this hub after the commit. It
// fails with api.AgentNotDeployed if there is none.
func (s *Service) change(ctx context.Context, caller api.Caller, name string, do func(context.Context, *store.Tx, deployment) (deployment, error)) (d deployment, err error) {
	if err := s.allow(caller, rbac.AdminWrite); err != nil {
		return d, err
	}
	err = s.store.Change(ctx, store.Change{Caller: caller}, func(tx *store.Tx) (err error) {
		if d, err = lockDeployment(ctx, tx, caller.TenantID, name); err != nil {
			return err
		}
		if d.Desired == desiredAbsent {
			return errNoDeployment
		}
		tx.AfterCommit(func() { s.changed(d) })
		d, err = do(ctx, tx, d)
		return err
	})
	return d, s.missing(ctx, caller.TenantID, name, err)
}

// missing returns the error for a user instead of errNoDeployment: api.NotFound if the tenant has
// no such agent, and otherwise api.AgentNotDeployed.
func (s *Service) missing(ctx context.Context, tenantID, name string, err error) error {
	if !errors.Is(err, errNoDeployment) {
		return err
	}
	if err := s.exists(ctx, tenantID, name); err != nil {
		return err
	}
	return api.AgentNotDeployed
}

// maxTail is the largest number of log lines.
const maxTail = 5000

// Logs returns the last lines of the runtime's log. It fails with api.AgentNotDeployed if the agent
// has no deployment.
func (s *Service) Logs(ctx context.Context, caller api.Caller, name string, tail int) ([]string, error) {
	if err := s.allow(caller, rbac.AdminWrite); err != nil {
		return nil, err
	}
	if tail < 1 || tail > maxTail {
		return nil, api.InvalidRequest.New(fmt.Sprintf("tail must be from 1 to %d.", maxTail))
	}
	d, err := readDeployment(ctx, s.store.Read(), caller.TenantID, name)
	if err == nil && d.Desired == desiredAbsent { // its agent may have been deleted
		err = s.exists(ctx, caller.TenantID, name)
	}
	if err != nil {
		return nil, s.missing(ctx, caller.TenantID, name, err)
	}
	lines, err := s.driver.Logs(ctx, d.Key, tail)
	if errors.Is(err, ErrUnavailable) {
		return nil, &api.Error{Code: api.DeployerUnavailable, Cause: err}
	}
	return lines, err
}

// EndTenant replaces the API keys of all deployments of a tenant, and stops them if stop is true:
// who had access to the tenant may know the keys. A running deployment is otherwise started again
// with its new key. It returns their number.
func (s *Service) EndTenant(ctx context.Context, tx *store.Tx, tenantID string, stop bool) (n int, err error) {
	all, err := lockDeploymentsOf(ctx, tx, tenantID)
	if err != nil {
		return 0, err
	}
	for _, d := range all {
		if d.Desired == desiredAbsent {
			continue
		}
		if err := deleteReaders(ctx, tx, d.TenantID, d.KeyDigest); err != nil {
			return 0, err
		}
		d.State = StateDeploying
		if err := s.replaceKey(&d); err != nil { // it can only be deleted and deployed again
			s.store.Logger.Warn("the key of a deployment cannot be replaced: it stops", "deployment", d.Key, "err", err)
			d.Desired = desiredStopped
		}
		if stop || d.Desired == desiredStopped {
			d.Desired, d.State = desiredStopped, StateStopping
		}
		if _, err := updateDesired(ctx, tx, d); err != nil {
			return 0, err
		}
		tx.AfterCommit(func() { s.changed(d) })
		n++
	}
	return n, nil
}

// changed makes a committed change effective in this hub.
func (s *Service) changed(d deployment) {
	s.endpoints.forget(d.agentRef())
	if s.reconciler != nil {
		s.reconciler.wake(d.Key)
	}
}
