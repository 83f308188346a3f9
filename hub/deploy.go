package hub

import (
	"context"
	"database/sql"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/rbac"
)

// openDeploys opens the deployments.
func (h *Hub) openDeploys() (err error) {
	h.deploys, err = deploy.New(deploy.Config{
		Store: h.store, Catalog: h.catalog, Driver: h.cfg.Deployer, PublicURL: h.cfg.PublicURL, GatewayURL: h.cfg.GatewayURL,
		External: h.cfg.External, HideAPIKey: h.cfg.HideRuntimeKeys, LeaseTime: h.cfg.LeaseTime, Offline: h.cfg.Offline,
	})
	return err
}

// agentDeployed reports whether an agent has a deployment.
func (h *Hub) agentDeployed(ctx context.Context, tx *sql.Tx, tenantID, name string) (bool, error) {
	return h.deploys.Deployed(ctx, tx, tenantID, name)
}

// rotateKeysReadBy replaces the keys of runtimes that a user has read and may not read with the
// role.
func (h *Hub) rotateKeysReadBy(ctx context.Context, tx *store.Tx, caller api.Caller, tenantID, userID string, role rbac.Role) error {
	return h.deploys.RotateKeysReadBy(ctx, tx, caller, tenantID, userID, role)
}
