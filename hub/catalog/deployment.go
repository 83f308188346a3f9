package catalog

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/provider"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Deployment returns the configuration of an agent of a tenant with all secrets in clear text and
// with links to its custom tools and skills, for a deployment. It is that of one state of the
// database. Disabled MCP servers and knowledge sets are left out. It fails with api.NotFound, and
// with api.Conflict if a secret cannot be opened or the agent or its provider is disabled. It does
// not authorize.
func (s *Service) Deployment(ctx context.Context, tenantID, name string) (agent.Agent, error) {
	var key string
	p, err := s.partsOf(ctx, tenantID, name, func(tx *sql.Tx, a Agent) (provider.Provider, error) {
		if !a.Enabled {
			return provider.Provider{}, api.Conflict.New("The agent is disabled: enable it first.")
		}
		credentials, err := s.cfg.Providers.Credentials(ctx, tx, tenantID, a.ProviderID)
		if err == nil && !credentials.Enabled {
			err = api.Conflict.New("The provider of the agent is disabled: enable it, or choose another.")
		}
		key = credentials.APIKey
		return credentials.Provider, err
	})
	if err != nil {
		return agent.Agent{}, err
	}
	p.servers = slices.DeleteFunc(p.servers, func(v MCP) bool { return !v.Enabled })
	p.knowledge = slices.DeleteFunc(p.knowledge, func(v Knowledge) bool { return !v.Enabled })
	config, err := s.config(ctx, p, func(column store.Sealed, v MCP, sealed map[string]string) (map[string]agent.Secret, error) {
		return s.openPairs(column, tenantID, v, sealed)
	})
	if err != nil {
		return agent.Agent{}, err
	}
	config.Provider.APIKey = agent.Secret(key)
	for name, sub := range config.Subagents { // of an agent that belongs to this call
		sub.MCPServers = slices.DeleteFunc(sub.MCPServers, func(server string) bool { _, ok := config.MCPServers[server]; return !ok })
		config.Subagents[name] = sub
	}
	// Skills whose archive is missing are part of it: their deployment fails with that reason.
	for _, v := range p.skills {
		url, _, err := s.cfg.Artifacts.SignedURL(ctx, v.file(), linkTTL)
		if err != nil {
			return agent.Agent{}, err
		}
		config.SkillArchives = append(config.SkillArchives, agent.SkillArchive{Name: v.Name, URL: url, Hash: v.Hash})
	}
	return config, nil
}

// parts are an agent and what it refers to.
type parts struct {
	agent     Agent
	provider  provider.Provider
	servers   []MCP // with sealed values
	knowledge []Knowledge
	tools     []Tool
	skills    []Skill
}

// partsOf reads the parts of an agent from one state of the database.
func (s *Service) partsOf(ctx context.Context, tenantID, name string, providerOf func(*sql.Tx, Agent) (provider.Provider, error)) (p parts, err error) {
	err = s.readTx(ctx, func(tx *sql.Tx) error {
		if p.agent, err = readAgent(ctx, tx, tenantID, name); err != nil {
			return err
		}
		if p.provider, err = providerOf(tx, p.agent); err != nil {
			return err
		}
		if p.servers, err = s.MCPs.boundTo(ctx, tx, tenantID, p.agent); err != nil {
			return err
		}
		if p.knowledge, err = s.Knowledge.boundTo(ctx, tx, tenantID, p.agent); err != nil {
			return err
		}
		if p.tools, err = s.Tools.boundTo(ctx, tx, tenantID, p.agent); err != nil {
			return err
		}
		p.skills, err = s.Skills.boundTo(ctx, tx, tenantID, p.agent)
		return err
	})
	return p, err
}

// config returns the configuration of an agent for a runtime, without the key of its provider and
// without skills. Tools whose file is missing are left out. pairs returns an environment or
// headers.
func (s *Service) config(ctx context.Context, p parts,
	pairs func(column store.Sealed, v MCP, sealed map[string]string) (map[string]agent.Secret, error)) (agent.Agent, error) {
	config := *p.agent.definition()
	setProvider(&config, p.provider)
	config.MCPServers = nil
	for _, v := range p.servers {
		server := v.server()
		var err error
		if server.Env, err = pairs(envColumn, v, v.Env); err != nil {
			return agent.Agent{}, err
		}
		if server.Headers, err = pairs(headersColumn, v, v.Headers); err != nil {
			return agent.Agent{}, err
		}
		if config.MCPServers == nil {
			config.MCPServers = map[string]agent.MCPServer{}
		}
		config.MCPServers[v.Name] = server
	}
	for _, ref := range p.agent.Knowledge {
		i := slices.IndexFunc(p.knowledge, func(v Knowledge) bool { return v.Name == ref.Name })
		if i < 0 {
			continue // disabled
		}
		if config.Datasets == nil {
			config.Datasets = map[string]string{}
		}
		config.Datasets[p.knowledge[i].DatasetID] = cmp.Or(ref.Description, p.knowledge[i].Description)
	}
	if err := s.Tools.show(ctx, p.tools, false); err != nil {
		return agent.Agent{}, err
	}
	for _, v := range p.tools {
		if v.Status == statusReady {
			config.CustomTools = append(config.CustomTools, agent.CustomTool{Name: v.Name, URL: s.cfg.Artifacts.URL(v.file()), Hash: v.Hash, FileName: v.FileName})
		}
	}
	return config, nil
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
