package deploy

import (
	"context"
	"database/sql"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// EndTenant replaces the API keys of all deployments of a tenant, and stops them if stop is true:
// who had access to the tenant may know the keys. A running deployment is otherwise started again
// with its new key. It returns their number, and a function that makes the change effective in this
// hub after the commit.
func (s *Service) EndTenant(ctx context.Context, tx *sql.Tx, tenantID string, stop bool) (n int, effect func(), err error) {
	all, err := lockDeploymentsOf(ctx, tx, tenantID)
	if err != nil {
		return 0, nil, err
	}
	var changed []deployment
	for _, d := range all {
		if d.Desired == desiredAbsent {
			continue
		}
		if err := deleteReaders(ctx, tx, d.TenantID, d.KeyDigest); err != nil {
			return 0, nil, err
		}
		if err := s.replaceKey(&d); err != nil { // it can only be deleted and deployed again
			s.cfg.Logger.Warn("the key of a deployment cannot be replaced: it stops", "deployment", d.Key, "err", err)
			d.Desired = desiredStopped
		}
		switch {
		case stop || d.Desired == desiredStopped:
			d.Desired, d.State = desiredStopped, StateStopping
		default:
			d.State = StateDeploying
		}
		if err := updateDesired(ctx, tx, d); err != nil {
			return 0, nil, err
		}
		changed = append(changed, d)
	}
	return len(changed), func() {
		for _, d := range changed {
			s.endpoints.forget(place{d.TenantID, d.AgentName})
			if s.reconciler != nil {
				s.reconciler.wake(d.Key)
			}
		}
	}, nil
}

// replaceKey gives the deployment a new API key, which its runtime gets with the next revision.
func (s *Service) replaceKey(d *deployment) error {
	c, err := s.open(*d)
	if err != nil {
		return err
	}
	c.APIKey, c.NextKey, d.Rotation = newAPIKey(), "", ""
	if c.Request.Env == nil {
		c.Request.Env = map[string]agent.Secret{}
	}
	c.Request.Env[EnvAPIKey] = c.APIKey
	d.Revision++
	return s.seal(d, c)
}

// HasDeployments reports whether the tenant has deployments.
func (s *Service) HasDeployments(ctx context.Context, tx *sql.Tx, tenantID string) (bool, error) {
	return hasDeployments(ctx, tx, tenantID)
}
