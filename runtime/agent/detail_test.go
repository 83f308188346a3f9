package agent_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestDetail(t *testing.T) {
	skills := []wire.SkillSummary{{Name: "pdf", Description: "Reads PDF", Source: "user",
		Location: "/home/u/.agents/skills/pdf/SKILL.md"}}
	full := fullFile().Agents[0]
	empty := demo()
	empty.AllowedTools, empty.DisallowedTools, empty.SettingSources, empty.ExtraUserSkillDirs = []string{}, []string{}, []string{}, []string{}
	empty.MCPServers, empty.Subagents, empty.Datasets = map[string]agent.MCPServer{}, map[string]agent.Subagent{}, map[string]string{}
	servers := demo()
	servers.SystemPromptFile = "not/there.md"
	servers.MCPServers = map[string]agent.MCPServer{
		"bare":  {Transport: "stdio", Command: "x"},
		"empty": {Transport: "stdio", Command: "x", Args: []string{}, Env: map[string]agent.Secret{}},
		"other": {Transport: "sse", URL: "https://x/?k=${v}", Args: []string{}, Env: map[string]agent.Secret{}},
	}
	for _, tc := range []struct {
		name   string
		agent  agent.Agent
		status string
		skills []wire.SkillSummary
	}{
		{"absent", demo(), "ready", nil},
		{"present", full, "ready", skills},
		{"empty", empty, "ready", []wire.SkillSummary{}},
		{"servers", servers, "unavailable", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want, err := os.ReadFile("testdata/detail-" + tc.name + ".json")
			require.NoError(t, err)
			var got bytes.Buffer
			enc := json.NewEncoder(&got)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			require.NoError(t, enc.Encode(tc.agent.Detail(tc.status, tc.skills)))
			require.Equal(t, string(want), got.String())
		})
	}
}

func TestDetailSharesNothing(t *testing.T) {
	a := fullFile().Agents[0]
	skills := []wire.SkillSummary{{Name: "pdf"}}
	d := a.Detail("ready", skills)
	d.AllowedTools[0], d.SettingSources[0], d.ExtraUserSkillDirs[0], d.AvailableSkills[0].Name = "x", "x", "x", "x"
	d.MCPServers["files"].Args[0] = "x"
	d.MCPServers["files"].Env["TOKEN"] = "x"
	delete(d.MCPServers, "web")
	delete(d.Subagents, "reviewer")
	d.Datasets["handbook"] = "x"
	require.Equal(t, fullFile().Agents[0], a)
	require.Equal(t, "pdf", skills[0].Name)
}

func TestSummary(t *testing.T) {
	full, plain := fullFile().Agents[0], demo()
	require.Equal(t, wire.AgentSummary{ID: "coder", Name: "Coder 😀", Model: "claude-sonnet-4-5", Status: "ready",
		ToolCount: 7, Description: "Writes code"},
		full.Summary("ready", 7))
	require.Equal(t, wire.AgentSummary{ID: "a", Name: "a", Model: "m", Status: "unavailable"},
		plain.Summary("unavailable", 0))
}
