package deployment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/code"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Values of deployment.Desired.
// The states of a deployment between those that programs wait for.
const (
	StateDeploying = "deploying" // the deployer gets the request
	StateStarting  = "starting"  // the runtime runs, but its agent is not ready; or it will be started again
	StateUnhealthy = "unhealthy" // it was running, and no longer responds
	StateStopping  = "stopping"
	StateDeleting  = "deleting"
)

const (
	desiredRunning = "running"
	desiredStopped = "stopped"
	desiredAbsent  = "absent"
)

// allow returns an error if the caller lacks the permission, or if there is no driver.
func (s *Service) allow(caller api.Caller, group rbac.Group) error {
	if err := group.Check(caller); err != nil {
		return err
	}

	if s.driver == nil {
		return code.DeployerUnavailable.New("This hub has no deployer: configure one with DEPLOYER.")
	}

	return nil
}

// Deploy deploys the current configuration of an agent, and starts it if it is stopped. It has no
// effect on a running deployment of the same configuration, unless forced. A revision that serves
// continues until the new one is ready. Deploy does not wait for the runtime. It fails with
// wire.Conflict if the agent may not use what its deployment settings have, and with
// code.DeploymentKeyTaken if the agent of another organization has the key.
func (s *Service) Deploy(ctx context.Context, caller api.Caller, name string, in bodies.DeployRequest) (wire.Deployment, error) {
	if err := s.allow(caller, rbac.AdminWrite); err != nil {
		return wire.Deployment{}, err
	}

	config, err := s.cfg.Catalog.Deployment(ctx, caller.TenantID, name)
	if err != nil {
		return wire.Deployment{}, err
	}

	d, err := s.changeAgent(ctx, caller, name, func(tx *store.Tx) (deployment, error) { return s.deploy(ctx, tx, name, config, in.Force) })
	if err != nil {
		return wire.Deployment{}, err
	}

	return s.compared(ctx, caller, d, &config)
}

// changeAgent makes a change that needs the agent. The lock also excludes concurrent calls for the
// same agent.
func (s *Service) changeAgent(ctx context.Context, caller api.Caller, name string, do func(*store.Tx) (deployment, error)) (d deployment, err error) {
	lock := func(ctx context.Context, tx *sql.Tx, tenantID string) error {
		return s.cfg.Catalog.LockAgent(ctx, tx, tenantID, name)
	}
	err = s.store.Change(ctx, store.Change{Caller: caller, Lock: lock}, func(tx *store.Tx) (err error) {
		d, err = do(tx)
		return err
	})
	return d, err
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
		d = deployment{Key: deploymentKey(tx.Caller.TenantID, name), TenantID: tx.Caller.TenantID, AgentName: name}
		d.HubID, d.UID = s.store.HubID, newUID()

	case d.Desired == desiredAbsent: // the former one is deleted
		err := errors.Join(insertTombstone(ctx, tx, d, tx.Now), deleteReaders(ctx, tx, d.TenantID, d.KeyDigest))
		if err != nil {
			return d, err
		}

		d.UID, d.Rotation = newUID(), ""
		d.attempt, d.RestartCount = attempt{}, 0
	default:
		if c, err = s.open(d); err != nil {
			return d, err
		}
	}

	request := newRequest(d.Key, name, config)
	hash, err := hashOf(request, c.Salt)
	if err != nil {
		return d, err
	}

	failed := d.State == wire.StateFailed || d.Rollout != nil && d.Rollout.State == wire.StateFailed
	if !created && !force && d.Desired == desiredRunning && d.SpecHash == hash && !failed {
		return d, nil
	}

	if err := s.permit(request.Deployment); err != nil {
		return d, err
	}

	if err := s.seal(&d, c); err != nil {
		return d, err
	}

	d.SpecHash = hash
	tx.Record(actionDeploy.Record(d.event(tx.Caller), deployDetail{DeploymentKey: d.Key, SpecHash: hash, Force: force}))
	return s.revise(ctx, tx, d, request)
}

// Stop stops the runtime of an agent's deployment. It fails with code.AgentNotDeployed if there is
// none.
func (s *Service) Stop(ctx context.Context, caller api.Caller, name string) (wire.Deployment, error) {
	return s.changeState(ctx, caller, name, actionStop, func(d *deployment) bool {
		changed := d.Desired != desiredStopped
		d.Desired = desiredStopped
		d.begin(StateStopping)
		return changed
	})
}

// Start starts the runtime of a stopped or failed deployment, with the configuration that was
// deployed. It fails with code.AgentNotDeployed if there is none.
func (s *Service) Start(ctx context.Context, caller api.Caller, name string) (wire.Deployment, error) {
	return s.changeState(ctx, caller, name, actionStart, func(d *deployment) bool {
		changed := d.Desired != desiredRunning || d.State == wire.StateFailed
		d.Desired = desiredRunning
		d.begin(StateStarting)
		return changed
	})
}

// begin forgets the attempts of a deployment with their conditions. The runs of former revisions
// continue if it runs.
func (d *deployment) begin(state string) {
	d.attempt = attempt{State: state, Health: healthUnknown, Counted: d.Counted, StartedAt: d.StartedAt}
	d.Rollout = nil
	d.Conditions = slices.DeleteFunc(slices.Clone(d.Conditions), func(c wire.Condition) bool {
		return c.Type != conditionRouted && c.Type != conditionRestored
	})
	if d.Desired != desiredRunning {
		d.Draining = []int64{}
	}
}

// Delete deletes the deployment of an agent with its data. It does not wait for the runtime, and
// has no effect if there is no deployment.
func (s *Service) Delete(ctx context.Context, caller api.Caller, name string) error {
	_, err := s.change(ctx, caller, name, func(ctx context.Context, tx *store.Tx, d deployment) (deployment, error) {
		d.Desired = desiredAbsent
		d.begin(StateDeleting)
		d.Serving = 0
		tx.Record(actionUndeploy.Record(d.event(caller), keyDetail{d.Key}))
		if err := deleteRevisions(ctx, tx, d); err != nil {
			return d, err
		}

		return updateDesired(ctx, tx, d)
	})
	if errors.Is(err, code.AgentNotDeployed) {
		return nil
	}

	return err
}

// changeState changes the desired state of a deployment, unless apply reports that it is reached.
func (s *Service) changeState(ctx context.Context, caller api.Caller, name string, action auditlog.Action[keyDetail], apply func(*deployment) bool) (wire.Deployment, error) {
	d, err := s.change(ctx, caller, name, func(ctx context.Context, tx *store.Tx, before deployment) (deployment, error) {
		d := before
		if !apply(&d) {
			return before, nil
		}

		tx.Record(action.Record(d.event(caller), keyDetail{d.Key}))
		return updateDesired(ctx, tx, d)
	})
	if err != nil {
		return wire.Deployment{}, err
	}

	return s.status(ctx, caller, d)
}

// change makes one change of a deployment, and makes it effective in this hub after the commit. It
// fails with code.AgentNotDeployed if there is none.
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

// missing returns the error for a user instead of errNoDeployment: wire.NotFound if the tenant has
// no such agent, and otherwise code.AgentNotDeployed.
func (s *Service) missing(ctx context.Context, tenantID, name string, err error) error {
	if !errors.Is(err, errNoDeployment) {
		return err
	}

	if err := s.exists(ctx, api.Caller{TenantID: tenantID}, name); err != nil {
		return err
	}

	return code.AgentNotDeployed
}

// maxTail is the largest number of log lines.
const maxTail = 5000

// Logs returns the last lines of the log of the last revision, after those of the revision that
// serves. It fails with code.AgentNotDeployed if the agent has no deployment.
func (s *Service) Logs(ctx context.Context, caller api.Caller, name string, tail int) ([]string, error) {
	if err := s.allow(caller, rbac.AdminWrite); err != nil {
		return nil, err
	}

	if tail < 1 || tail > maxTail {
		return nil, wire.InvalidRequest.New(fmt.Sprintf("tail must be from 1 to %d.", maxTail))
	}

	d, err := readDeployment(ctx, s.store.Read(), caller.TenantID, name)
	if err == nil { // of a deployment that is being deleted, the agent may be gone
		err = s.exists(ctx, caller, name)
	}

	if err != nil {
		return nil, s.missing(ctx, caller.TenantID, name, err)
	}

	lines, err := s.driver.Logs(ctx, s.ref(d.Key, d.UID), d.Revision, tail)
	if main := d.main(); err == nil && len(lines) < tail && main != d.Revision {
		var serving []string
		serving, err = s.driver.Logs(ctx, s.ref(d.Key, d.UID), main, tail-len(lines))
		lines = append(serving, lines...)
	}

	if errors.Is(err, deploy.ErrUnavailable) {
		return nil, &wire.Error{Code: code.DeployerUnavailable, Cause: err}
	}

	return lines, err
}

// changed makes a committed change effective in this hub.
func (s *Service) changed(d deployment) {
	s.endpoints.forget(d.agentRef())
	if s.reconciler != nil {
		s.reconciler.wake(d.Key)
	}
}
