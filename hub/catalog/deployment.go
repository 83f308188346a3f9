package catalog

import (
	"context"
	"slices"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/provider"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Deployment returns the configuration of an agent of a tenant with all secrets in clear text and
// with links to its custom tools and skills, for a deployment.
// Disabled MCP servers and knowledge sets are left out. It fails with api.NotFound, and with
// api.Conflict if a secret cannot be opened or the agent or its provider is disabled. It does not
// authorize.
func (s *Service) Deployment(ctx context.Context, tenantID, name string) (agent.Agent, error) {
	a, config, err := s.config(ctx, tenantID, name)
	if err != nil {
		return agent.Agent{}, err
	}
	if !a.Enabled {
		return agent.Agent{}, api.Conflict.New("The agent is disabled: enable it first.")
	}
	credentials, err := s.cfg.Providers.Credentials(ctx, s.store.Read(), tenantID, a.ProviderID)
	if err != nil {
		return agent.Agent{}, err
	}
	if !credentials.Enabled {
		return agent.Agent{}, api.Conflict.New("The provider of the agent is disabled: enable it, or choose another.")
	}
	config.Provider.APIKey = agent.Secret(credentials.APIKey)
	if config.CustomTools, err = s.CustomTools(ctx, tenantID, name); err != nil {
		return agent.Agent{}, err
	}
	config.SkillArchives, err = s.SkillArchives(ctx, tenantID, name)
	return config, err
}

// config returns an agent, and its configuration for a runtime without the key of its provider.
func (s *Service) config(ctx context.Context, tenantID, name string) (Agent, agent.Agent, error) {
	a, err := readAgent(ctx, s.store.Read(), tenantID, name)
	if err != nil {
		return Agent{}, agent.Agent{}, err
	}
	config := *a.definition()
	p, err := s.cfg.Providers.Get(ctx, s.store.Read(), tenantID, a.ProviderID)
	if err != nil {
		return Agent{}, agent.Agent{}, err
	}
	setProvider(&config, p)
	if config.MCPServers, err = s.servers(ctx, tenantID, a.MCPs); err != nil {
		return Agent{}, agent.Agent{}, err
	}
	if config.Datasets, err = s.datasets(ctx, tenantID, a.Knowledge, false); err != nil {
		return Agent{}, agent.Agent{}, err
	}
	for name, sub := range config.Subagents { // of a, which belongs to this call
		sub.MCPServers = slices.DeleteFunc(sub.MCPServers, func(server string) bool { _, ok := config.MCPServers[server]; return !ok })
		config.Subagents[name] = sub
	}
	return a, config, nil
}

// setProvider sets the address of the model. The vendors' own addresses and models are known to the
// runtime.
func setProvider(config *agent.Agent, p provider.Provider) {
	config.Provider = agent.Provider{Protocol: p.Protocol}
	if p.Shared {
		return
	}
	config.Provider.BaseURL, config.Provider.AuthStyle = agent.Secret(p.BaseURL), p.AuthStyle
	for _, m := range p.Models {
		if m.ID == config.Model {
			config.ContextWindow, config.MaxOutputTokens = m.ContextWindow, m.MaxOutput
		}
	}
}

// servers returns the enabled ones of MCP servers, with their values opened.
func (s *Service) servers(ctx context.Context, tenantID string, names []string) (map[string]agent.MCPServer, error) {
	var all map[string]agent.MCPServer
	for _, name := range names {
		v, err := mcpByName(ctx, s.store.Read(), tenantID, name)
		if err != nil {
			return nil, err
		}
		if !v.Enabled {
			continue
		}
		server, err := s.server(tenantID, v)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = map[string]agent.MCPServer{}
		}
		all[name] = server
	}
	return all, nil
}

// datasets returns the datasets of knowledge sets, of disabled ones only if disabled is true.
func (s *Service) datasets(ctx context.Context, tenantID string, refs []KnowledgeRef, disabled bool) (map[string]string, error) {
	var all map[string]string
	for _, ref := range refs {
		v, err := knowledgeByName(ctx, s.store.Read(), tenantID, ref.Name)
		if err != nil {
			return nil, err
		}
		if !v.Enabled && !disabled {
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		all[v.DatasetID] = v.Description
		if ref.Description != "" {
			all[v.DatasetID] = ref.Description
		}
	}
	return all, nil
}
