package agent

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/wire"

	"github.com/seed93082962/agenthost/internal/agentvalue"
)

// Summary returns the agent's entry in the list of agents. toolCount is the number of its tools
// without those of MCP servers.
func (a *Agent) Summary(status string, toolCount int) wire.AgentSummary {
	return wire.AgentSummary{
		ID:          a.ID,
		Name:        cmp.Or(a.Name, a.ID),
		Model:       a.Model,
		Status:      status,
		ToolCount:   toolCount,
		Description: a.Description,
	}
}

// Detail returns the public part of the agent. Values of env and headers are ***. Subagents have
// only their descriptions. Defaults are set only for name and maxTurns. The result shares no memory
// with the agent or skills.
func (a *Agent) Detail(status string, skills []wire.SkillSummary) wire.AgentDetail {
	return wire.AgentDetail{
		ID:                 a.ID,
		Name:               cmp.Or(a.Name, a.ID),
		Model:              a.Model,
		Status:             status,
		MaxTurns:           a.TurnLimit(),
		HasSystemPrompt:    a.SystemPrompt != "" || a.SystemPromptFile != "",
		PermissionMode:     a.PermissionMode,
		AllowedTools:       slices.Clone(a.AllowedTools),
		DisallowedTools:    slices.Clone(a.DisallowedTools),
		AvailableSkills:    slices.Clone(skills),
		SettingSources:     slices.Clone(a.SettingSources),
		ExtraUserSkillDirs: slices.Clone(a.ExtraUserSkillDirs),
		MCPServers:         each(a.MCPServers, MCPServer.summary),
		Subagents:          each(a.Subagents, func(s Subagent) wire.SubagentSummary { return wire.SubagentSummary{Description: s.Description} }),
		Datasets:           maps.Clone(a.Datasets),
		OutputSchema:       slices.Clone(a.OutputSchema),
	}
}

func (s MCPServer) summary() wire.MCPServer {
	hide := func(Secret) string { return redacted }
	if s.Transport == agentvalue.TransportStdio {
		return wire.MCPServer{Transport: s.Transport, Command: s.Command, Args: slices.Clone(s.Args), Env: each(s.Env, hide)}
	}

	return wire.MCPServer{Transport: s.Transport, URL: withoutValues(s.URL), Headers: each(s.Headers, hide)}
}

// withoutValues returns an address without the values of its query, which may be secrets.
func withoutValues(address string) string {
	base, query, found := strings.Cut(address, "?")
	if !found {
		return address
	}

	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, _, _ := strings.Cut(part, "=")
		parts[i] = name + "=" + redacted
	}

	return base + "?" + strings.Join(parts, "&")
}

// each maps the values of m. It returns nil for a nil map, so that the JSON has no such field.
func each[V, W any](m map[string]V, f func(V) W) map[string]W {
	if m == nil {
		return nil
	}

	out := make(map[string]W, len(m))
	for k, v := range m {
		out[k] = f(v)
	}

	return out
}
