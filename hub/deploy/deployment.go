package deploy

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/rbac"
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
	spec, err := s.cfg.Source(ctx, caller.TenantID, name)
	if errors.Is(err, api.NotFound) {
		return Status{}, err
	}
	d, readErr := readDeployment(ctx, s.db.Read(), caller.TenantID, name)
	if errors.Is(readErr, errNoDeployment) {
		return s.notDeployed(caller.TenantID, name), nil
	}
	if readErr != nil {
		return Status{}, readErr
	}
	if err != nil { // such as a provider without a key: the deployment continues without it
		s.cfg.Logger.Warn("read configuration of agent", "tenant", caller.TenantID, "agent", name, "err", err)
		return s.status(ctx, caller, d, true)
	}
	return s.compared(ctx, caller, d, spec)
}

// compared returns the status of a deployment, with its drift from the configuration.
func (s *Service) compared(ctx context.Context, caller api.Caller, d deployment, spec Spec) (Status, error) {
	c, err := s.open(d)
	if err != nil {
		return Status{}, err
	}
	hash, err := spec.hash(c.Salt)
	if err != nil {
		return Status{}, err
	}
	return s.status(ctx, caller, d, hash != d.SpecHash)
}

func (s *Service) status(ctx context.Context, caller api.Caller, d deployment, drift bool) (Status, error) {
	c, err := s.open(d)
	if err != nil {
		return Status{}, err
	}
	at := s.identify(d.TenantID, d.AgentName)
	st := Status{
		AgentName: d.AgentName, DeploymentKey: d.Key, Desired: d.Desired, State: d.State, Health: d.Health, RuntimeURL: d.RuntimeURL,
		APIKey: string(c.APIKey), PublicURL: at.PublicURL, Backend: s.cfg.Driver.Backend(), SpecHash: d.SpecHash, ConfigDrift: drift,
		RestartCount: d.RestartCount, Conditions: []Condition{},
		StartedAt: api.Time(d.StartedAt), DeployedAt: api.Time(d.DeployedAt), DeployedBy: d.DeployedBy, Error: d.Error,
	}
	for _, c := range d.Conditions {
		st.Conditions = append(st.Conditions, Condition{c.Type, c.Status, c.Message, api.Time(c.ChangedAt)})
	}
	if !s.readsKeys(caller.Role()) {
		st.APIKey = ""
		return st, nil
	}
	return st, s.revealKey(ctx, caller, d)
}

func (s *Service) notDeployed(tenantID, name string) Status {
	at := s.identify(tenantID, name)
	return Status{
		AgentName: name, DeploymentKey: at.Key, Desired: desiredAbsent, State: StateNotDeployed, Health: healthUnknown,
		PublicURL: at.PublicURL, Backend: s.cfg.Driver.Backend(), Conditions: []Condition{},
	}
}

// allow returns an error if the caller lacks the permission, or if there is no driver.
func (s *Service) allow(caller api.Caller, group rbac.Group) error {
	if err := group.Check(caller); err != nil {
		return err
	}
	if s.cfg.Driver == nil {
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
	spec, err := s.cfg.Source(ctx, caller.TenantID, name)
	if err != nil {
		return Status{}, err
	}
	var d deployment
	err = errRepeat
	for range 3 {
		if !errors.Is(err, errRepeat) {
			break
		}
		err = s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
			d, err = s.deploy(ctx, tx, caller, name, spec, in.Force)
			return err
		})
	}
	if err != nil {
		return Status{}, err
	}
	s.changed(d)
	return s.compared(ctx, caller, d, spec)
}

func (s *Service) deploy(ctx context.Context, tx *sql.Tx, caller api.Caller, name string, spec Spec, force bool) (deployment, error) {
	if err := s.cfg.Lock(ctx, tx, caller.TenantID, name); err != nil {
		return deployment{}, err
	}
	d, err := lockDeployment(ctx, tx, caller.TenantID, name)
	created := errors.Is(err, errNoDeployment)
	if err != nil && !created {
		return d, err
	}
	c := newContent()
	switch {
	case created:
		d = deployment{Key: s.identify(caller.TenantID, name).Key, TenantID: caller.TenantID, AgentName: name, Edition: 1}
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
	hash, err := spec.hash(c.Salt)
	if err != nil {
		return d, err
	}
	if !created && !force && d.Desired == desiredRunning && d.SpecHash == hash && d.State != StateFailed {
		return d, nil
	}
	now := s.now()
	c.Request = spec.request(d.Key, name, string(c.APIKey))
	if err := s.seal(&d, c); err != nil {
		return d, err
	}
	d.Desired = desiredRunning
	d.SpecHash = hash
	d.State = StateDeploying
	d.Revision = d.Revision + 1
	d.LinkedAt = now
	d.DeployedAt = now
	d.DeployedBy = caller.UserName
	d.Error = ""
	if created {
		err = insertDeployment(ctx, tx, d)
	} else {
		err = updateDesired(ctx, tx, d)
	}
	if err != nil {
		return d, err
	}
	return d, s.cfg.Audit.AppendTx(ctx, tx, actionDeploy.Record(d.event(caller), deployDetail{d.Key, hash, force}))
}

// Stop stops the runtime of an agent's deployment. It fails with api.AgentNotDeployed if there is
// none.
func (s *Service) Stop(ctx context.Context, caller api.Caller, name string) (Status, error) {
	return s.change(ctx, caller, name, actionStop, func(d *deployment) bool {
		changed := d.Desired != desiredStopped
		d.Desired, d.State = desiredStopped, StateStopping
		return changed
	})
}

// Start starts the runtime of a stopped or failed deployment, with the configuration that was
// deployed. It fails with api.AgentNotDeployed if there is none.
func (s *Service) Start(ctx context.Context, caller api.Caller, name string) (Status, error) {
	return s.change(ctx, caller, name, actionStart, func(d *deployment) bool {
		changed := d.Desired != desiredRunning || d.State == StateFailed
		d.Desired, d.State = desiredRunning, StateStarting
		return changed
	})
}

// change changes the desired state of a deployment, unless apply reports that it is reached.
func (s *Service) change(
	ctx context.Context, caller api.Caller, name string, action auditlog.Action[keyDetail], apply func(*deployment) bool,
) (Status, error) {
	if err := s.allow(caller, rbac.AdminWrite); err != nil {
		return Status{}, err
	}
	if _, err := s.cfg.Source(ctx, caller.TenantID, name); errors.Is(err, api.NotFound) {
		return Status{}, err
	}
	var d deployment
	err := s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
		d, err = lockDeployment(ctx, tx, caller.TenantID, name)
		if errors.Is(err, errNoDeployment) || err == nil && d.Desired == desiredAbsent {
			return api.AgentNotDeployed
		}
		if err != nil {
			return err
		}
		before := d
		if !apply(&d) {
			d = before
			return nil
		}
		d.Error = ""
		if err := updateDesired(ctx, tx, d); err != nil {
			return err
		}
		return s.cfg.Audit.AppendTx(ctx, tx, action.Record(d.event(caller), keyDetail{d.Key}))
	})
	if err != nil {
		return Status{}, err
	}
	s.changed(d)
	return s.Status(ctx, caller, name)
}

// Delete deletes the deployment of an agent with its data. It does not wait for the runtime, and
// has no effect if there is no deployment.
func (s *Service) Delete(ctx context.Context, caller api.Caller, name string) error {
	_, err := s.change(ctx, caller, name, actionUndeploy, func(d *deployment) bool {
		d.Desired, d.State, d.Purge = desiredAbsent, StateDeleting, true
		return true
	})
	if errors.Is(err, api.AgentNotDeployed) {
		return nil
	}
	return err
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
	if _, err := s.cfg.Source(ctx, caller.TenantID, name); errors.Is(err, api.NotFound) {
		return nil, err
	}
	d, err := readDeployment(ctx, s.db.Read(), caller.TenantID, name)
	if errors.Is(err, errNoDeployment) {
		return nil, api.AgentNotDeployed
	}
	if err != nil {
		return nil, err
	}
	lines, err := s.cfg.Driver.Logs(ctx, d.Key, tail)
	if errors.Is(err, ErrUnavailable) {
		return nil, &api.Error{Code: api.DeployerUnavailable, Cause: err}
	}
	return lines, err
}

// changed makes a committed change effective in this hub.
func (s *Service) changed(d deployment) {
	s.endpoints.forget(place{d.TenantID, d.AgentName})
	s.reconciler.wake(d.Key)
}

// event returns the event of an action with the agent as its target.
func (d deployment) event(caller api.Caller) auditlog.Event {
	e := caller.Event()
	e.TargetType, e.TargetID, e.TargetName = targetAgent, d.AgentName, d.AgentName
	return e
}
