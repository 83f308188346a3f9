package hub

import (
	"context"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/gateway"
)

// openGateway opens the proxy of the runtimes.
func (h *Hub) openGateway() (err error) {
	cfg := gateway.Config{Target: h.gatewayTarget, Authorize: h.authorizeRuntime, Audit: h.log, Tenant: api.DefaultTenant, Logger: h.cfg.Logger}
	if h.cfg.External {
		cfg.Tenant = "" // paths begin with the organization
	}
	h.gateway, err = gateway.New(cfg)
	return err
}

// authorizeRuntime returns the runtime of the agent whose deployment has the API key.
func (h *Hub) authorizeRuntime(ctx context.Context, tenantID, agentName, apiKey string) (gateway.Target, error) {
	e, err := h.deploys.Authorize(ctx, tenantID, agentName, apiKey)
	return gateway.Target{URL: e.URL, APIKey: string(e.APIKey), AgentID: e.AgentID}, err
}

// gatewayTarget returns the runtime of a deployed agent.
func (h *Hub) gatewayTarget(ctx context.Context, tenantID, agentName string) (gateway.Target, error) {
	e, err := h.deploys.Endpoint(ctx, tenantID, agentName)
	return gateway.Target{URL: e.URL, APIKey: string(e.APIKey), AgentID: e.AgentID}, err
}
