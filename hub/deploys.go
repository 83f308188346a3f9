package hub

import (
	"context"
	"database/sql"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// openDeploys opens the deployments.
func (h *Hub) openDeploys() (err error) {
	h.deploys, err = deploy.New(deploy.Config{
		DB: h.db, Keyring: h.keyring, Audit: h.audit, Driver: h.cfg.Deployer, Source: h.deploySpec,
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

// lockAgent locks an agent until the transaction ends, so that it cannot be deleted meanwhile.
func (h *Hub) lockAgent(ctx context.Context, tx *sql.Tx, tenantID, name string) error {
	return h.catalog.LockAgent(ctx, tx, tenantID, name)
}

// deploySpec returns the configuration of an agent from the catalog.
func (h *Hub) deploySpec(ctx context.Context, tenantID, name string) (deploy.Spec, error) {
	agent, err := h.catalog.Deployment(ctx, tenantID, name)
	if err != nil {
		return deploy.Spec{}, err
	}
	spec := deploy.Spec{Config: agent.Config}
	tools, err := h.catalog.ToolSources(ctx, tenantID, name)
	if err != nil {
		return deploy.Spec{}, err
	}
	for _, t := range tools {
		spec.CustomTools = append(spec.CustomTools, deploy.ToolSource(t))
	}
	skills, err := h.catalog.SkillSources(ctx, tenantID, name)
	if err != nil {
		return deploy.Spec{}, err
	}
	for _, s := range skills {
		spec.Skills = append(spec.Skills, deploy.SkillSource(s))
	}
	return spec, nil
}
