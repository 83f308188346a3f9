package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	main "github.com/seed93082962/agenthost/cmd/agenthost"
	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/hub/wire"
)

const faultyAgents = `agents:
  - id: folder
    model: demo
    provider: {protocol: demo}
    allowedTools: [Raed, "Grpe(x)", Nothing, Write, mcp__web__x]
    disallowedTools: [bsh]
    mcpServers:
      none: {transport: stdio, command: there-is-none}
      gone: {command: /there/is/none}
      web: {transport: http, url: "%s/mcp"}
`

// agenthost dev says what is wrong with the agents of a directory while it runs, what it has
// started again, and which address is free. A chat says which provider failed, and who can repair
// it.
func TestDevSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"Incorrect API key","type":"invalid_request_error"}}`, http.StatusUnauthorized)
	}))
	t.Cleanup(upstream.Close)
	dir, agents := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(agents, "agents.yaml"), []byte(strings.ReplaceAll(faultyAgents, "%s", upstream.URL)), 0o600))
	p := startDev(t, dir, nil, "--agents", agents, "--yes")
	defer func() { end(t, p) }()
	for _, fault := range []string{
		`the agent folder has no tool "Raed": did you mean Read\?\n`, `no tool "Grpe": did you mean Grep\?\n`, `no tool "Nothing"\n`,
		`no tool "bsh": did you mean Bash\?\n`,
		`agent folder: the MCP server none is failed: [^\n]* \(setting mcpServers\.none\.command\)\n`,
		`agent folder: the MCP server gone is failed: [^\n]*find executable "/there/is/none": stat /there/is/none: no such file or directory \(setting mcpServers\.gone\.command\)\n`,
		`agent folder: the MCP server web is failed: [^\n]*401[^\n]* \(setting mcpServers\.web\.headers\)\n`,
	} {
		p.Await(t, p.Log, regexp.MustCompile(fault))
	}
	require.NotContains(t, p.Log.String(), `no tool "mcp__web__x"`)
	require.NotRegexp(t, "is pending|is not connected yet .*setting", p.Log.String())

	binary, err := built()
	require.NoError(t, err)
	program := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Env = append(os.Environ(), "AGENTHOST_CONFIG="+filepath.Join(dir, "config"))
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		return string(out)
	}
	taken := strings.TrimPrefix(p.URL, "http://")
	require.Regexp(t, `another program listens on `+taken+`: add --addr 127\.0\.0\.1:\d+, which is free\n$`, program("dev", "--addr", taken, "--data", t.TempDir()))

	used := regexp.MustCompile(`Data: (.+)\n`).FindStringSubmatch(p.Stdout.String())[1]
	require.Contains(t, program("dev", "--addr", "127.0.0.1:0", "--yes", "--data", used), "another agenthost dev uses "+used+": end it, or add --data DIR")

	c := clientOf(t, p, dir)
	provider, err := c.Providers.Create(t.Context(), wire.ProviderRequest{Name: "My Own", ProbeRequest: wire.ProbeRequest{
		Protocol: "openai", BaseURL: upstream.URL + "/v1", APIKey: wire.KeyChange{Value: "sk-0123456789abcdef0123456789"},
	}})
	require.NoError(t, err)
	_, err = c.Agents.Create(t.Context(), wire.AgentRequest{Name: "own", ProviderID: provider.ID, Model: "m"})
	require.NoError(t, err)
	require.Contains(t, program("chat", "own", "-m", "Hello!"), "agent_not_deployed")
	_, err = c.Deployments.Deploy(t.Context(), "own", false)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		state, err := c.Deployments.Get(t.Context(), "own")
		return err == nil && state.State == wire.StateRunning
	}, daemontest.Patience, 20*time.Millisecond)
	out := program("chat", "own", "-m", "Hello!")
	const remedy = `The provider My Own rejected its key. A maintainer can replace it, in the console or with agenthost providers set "My Own" --key`
	require.Contains(t, out, remedy)
	require.Equal(t, 1, strings.Count(out, "the answer was not completed"))
	encoded, err := json.Marshal(remedy)
	require.NoError(t, err)
	require.Contains(t, program("chat", "own", "-m", "Hello!", "-o", "json"), `"remedy":`+string(encoded))
	for session, err := range c.Chats.List(t.Context(), "own") {
		require.NoError(t, err)
		for message, err := range c.Chats.Messages(t.Context(), "own", session.ID) {
			require.NoError(t, err)
			require.True(t, message.Role == "user" || message.Error != nil && message.Error.Remedy == remedy, "%+v", message)
		}
	}

	end(t, p)
	p = startDev(t, dir, nil, "--agents", agents, "--yes")
	p.Await(t, p.Stdout, regexp.MustCompile(`Started again, as they were: folder, own\n`))
}

// A budget is a part of what a person may use, and not a number of its unit.
func TestTextOfABudget(t *testing.T) {
	t.Parallel()
	budget := func(kind, period, unit string, spent float64, hard *float64) string {
		return main.BudgetText(wire.Budget{Kind: kind, Spent: spent, BudgetRequest: wire.BudgetRequest{Period: period, Unit: unit, Soft: new(50.0), Hard: hard}})
	}
	require.Equal(t, "You have used 80 % of today's tokens.", budget("user", "day", "tokens", 80.9, new(100.0)))
	require.Equal(t, "The agent has used 100 % of this month's budget.", budget("agent", "month", "cost", 3, new(3.0)))
	require.Equal(t, "You have used today's tokens up to the limit of the warning, 50.", budget("user", "day", "tokens", 60, nil))
}
