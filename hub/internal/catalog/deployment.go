package catalog

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Deployment returns the configuration of an agent of a tenant with all secrets in clear text and
// with links to its custom tools and skills, for a deployment. Of its field Hub, it has what the
// runtime may use. It is that of one state of the database. Disabled MCP servers and knowledge sets
// are left out. It fails with wire.NotFound, and with wire.Conflict if a secret cannot be opened or
// the agent or its provider is disabled, or the provider lacks its key. It does not authorize.
func (s *Service) Deployment(ctx context.Context, tenantID, name string) (agent.Agent, error) {
	p, err := s.partsOf(ctx, tenantID, name, func(tx *sql.Tx, p *parts) (err error) {
		if !p.agent.Enabled {
			return wire.Conflict.New("The agent is disabled: enable it first.")
		}

		p.provider, p.settings, err = s.cfg.Providers.Open(ctx, tx, tenantID, p.agent.ProviderID)
		if err == nil && !p.provider.Enabled {
			err = wire.Conflict.New("The provider " + p.provider.Name + " is disabled: enable it, or choose another for the agent.")
		}

		if err == nil && p.provider.KeyState == provider.KeyMissing {
			err = wire.Conflict.New("The provider " + p.provider.Name + " has no key: add it with agenthost providers set " + p.provider.Name + " --key, or choose another provider for the agent.")
		}

		return err
	})
	if err != nil {
		return agent.Agent{}, err
	}

	p.servers = slices.DeleteFunc(p.servers, func(v MCP) bool { return !v.Enabled })
	p.knowledge = slices.DeleteFunc(p.knowledge, func(v wire.Knowledge) bool { return !v.Enabled })
	config, err := s.config(ctx, p, func(v MCP) (agent.MCPServer, error) { return s.openServer(tenantID, v) })
	if err != nil {
		return agent.Agent{}, err
	}

	for name, sub := range config.Subagents { // of an agent that belongs to this call
		sub.MCPServers = slices.DeleteFunc(sub.MCPServers, func(server string) bool { _, ok := config.MCPServers[server]; return !ok })
		config.Subagents[name] = sub
	}

	// Skills whose archive is missing are part of it: their deployment fails with that reason.
	for _, v := range p.skills {
		url, _, err := s.cfg.Artifacts.SignedURL(ctx, skillFile(v), linkTTL)
		if err != nil {
			return agent.Agent{}, err
		}

		config.SkillArchives = append(config.SkillArchives, agent.SkillArchive{Name: v.Name, URL: url, Hash: v.Hash})
	}

	if p.agent.Deployment != (agent.Deployment{}) {
		config.Hub = &agent.Hub{Deployment: p.agent.Deployment}
	}

	return config, nil
}

// parts are an agent and what it refers to.
type parts struct {
	agent     Agent
	provider  wire.Provider
	settings  agent.Provider // of the provider
	servers   []MCP          // with sealed values
	knowledge []wire.Knowledge
	tools     []wire.Tool
	skills    []wire.Skill
}

// partsOf reads the parts of an agent from one state of the database.
func (s *Service) partsOf(ctx context.Context, tenantID, name string, readProvider func(*sql.Tx, *parts) error) (parts, error) {
	var p parts
	var err error
	err = s.readTx(ctx, func(tx *sql.Tx) error {
		if p.agent, err = readAgent(ctx, tx, tenantID, name); err != nil {
			return err
		}

		if err = readProvider(tx, &p); err != nil {
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

// config returns the configuration of an agent for a runtime, without skills. Tools whose file is
// missing are left out. serverOf returns an MCP server as the runtime has it. The address of a
// built-in provider and its models are known to the runtime.
func (s *Service) config(ctx context.Context, p parts, serverOf func(MCP) (agent.MCPServer, error)) (agent.Agent, error) {
	config := p.agent.forRuntime()
	config.Provider = p.settings
	if p.provider.Shared {
		config.Provider = agent.Provider{Protocol: p.provider.Protocol, APIKey: p.settings.APIKey}
	} else {
		model := p.provider.ModelNamed(config.Model)
		config.ContextWindow = cmp.Or(config.ContextWindow, model.ContextWindow)
		config.MaxOutputTokens = cmp.Or(config.MaxOutputTokens, model.MaxOutput)
	}

	config.MCPServers = nil
	for _, v := range p.servers {
		server, err := serverOf(v)
		if err != nil {
			return agent.Agent{}, err
		}

		if config.MCPServers == nil {
			config.MCPServers = map[string]agent.MCPServer{}
		}

		config.MCPServers[v.Name] = server
	}

	for _, ref := range p.agent.Knowledge {
		i := slices.IndexFunc(p.knowledge, func(v wire.Knowledge) bool { return v.Name == ref.Name })
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
			config.CustomTools = append(config.CustomTools, agent.CustomTool{Name: v.Name, URL: s.cfg.Artifacts.URL(toolFile(v)), Hash: v.Hash, FileName: v.FileName})
		}
	}

	return config, nil
}

// Link sets the URLs of tools and skills that were part of a deployment. Their files may be those
// of an earlier version of the catalog.
func (s *Service) Link(ctx context.Context, tools []agent.CustomTool, skills []agent.SkillArchive) error {
	for i, t := range tools {
		tools[i].URL = s.cfg.Artifacts.URL(fileOf(artifact.Tools, t.FileName, t.Hash, 0))
	}

	var err error
	for i, v := range skills {
		if skills[i].URL, _, err = s.cfg.Artifacts.SignedURL(ctx, fileOf(artifact.Skills, v.Name+".zip", v.Hash, 0), linkTTL); err != nil {
			return err
		}
	}

	return nil
}

// Artifacts returns the keys of the files of tools and skills.
func (s *Service) Artifacts(tools []agent.CustomTool, skills []agent.SkillArchive) []string {
	var keys []string
	for _, t := range tools {
		keys = append(keys, fileOf(artifact.Tools, t.FileName, t.Hash, 0).Key())
	}

	for _, v := range skills {
		keys = append(keys, fileOf(artifact.Skills, v.Name+".zip", v.Hash, 0).Key())
	}

	return keys
}

// fileOf returns the file of a tool or a skill. The hash has the name of its function.
func fileOf(kind artifact.Purpose, name, hash string, size int64) artifact.Ref {
	return artifact.Ref{Kind: kind, Name: name, Hash: strings.TrimPrefix(hash, hashPrefix), Size: size}
}
