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
		DB: h.db, Keyring: h.keyring, Audit: h.log, Driver: h.cfg.Deployer, Source: h.deploySpec,
		PublicURL: h.cfg.PublicURL, GatewayURL: h.cfg.GatewayURL, External: h.cfg.External, HideAPIKey: h.cfg.HideRuntimeKeys,
		LeaseTime: h.cfg.LeaseTime, Lock: h.lockAgent,
		Offline: h.cfg.Offline, Now: h.cfg.Now, Logger: h.cfg.Logger,
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
	return h.deploys.RotateKeysReadBy(ctx, tx.Tx, caller, tenantID, userID, role)
}

// lockAgent locks an agent until the transaction ends, so that it cannot be deleted in the
// meantime.
func (h *Hub) lockAgent(ctx context.Context, tx *sql.Tx, tenantID, name string) error {
	return h.catalog.LockAgent(ctx, tx, tenantID, name)
}

// deploySpec returns the configuration of an agent from the catalog.
func (h *Hub) deploySpec(ctx context.Context, tenantID, name string) (deploy.Spec, error) {
	config, err := h.catalog.Deployment(ctx, tenantID, name)
	if err != nil {
		return deploy.Spec{}, err
	}
	spec := deploy.Spec{Config: config}
	for _, t := range config.CustomTools {
		spec.CustomTools = append(spec.CustomTools, deploy.ToolSource{Name: t.Name, URL: t.URL, Hash: t.Hash, FileName: t.FileName})
	}
	for _, s := range config.SkillArchives {
		spec.Skills = append(spec.Skills, deploy.SkillSource{Name: s.Name, URL: s.URL, Hash: s.Hash})
	}
	spec.Config.CustomTools, spec.Config.SkillArchives = nil, nil // the request has them
	return spec, nil
}
