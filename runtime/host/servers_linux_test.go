package host_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/host"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/demo"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
	"github.com/seed93082962/agenthost/runtime/wire"

	"net/http/httptest"
)

// serverRole is the argument of the test binary that makes it a stdio server.
const serverRole = "stdio-server"

// serveStdio is an MCP server that executes commands.
func serveStdio() error {
	server := sdk.NewServer(&sdk.Implementation{Name: "execute", Version: "1"}, nil)
	type input struct {
		Command string `json:"command"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "execute"}, func(ctx context.Context, _ *sdk.CallToolRequest, in input) (*sdk.CallToolResult, any, error) {
		output, err := exec.CommandContext(ctx, "/bin/bash", "-c", in.Command).CombinedOutput()
		return &sdk.CallToolResult{IsError: err != nil, Content: []sdk.Content{&sdk.TextContent{Text: string(output)}}}, nil, nil
	})
	return server.Run(context.Background(), &sdk.StdioTransport{})
}

// confined is a host whose agent may call every tool, and the files around its working directory.
type confined struct {
	client             *client.Client
	cwd, home, private string
}

func serveConfined(t *testing.T, servers func(c *confined) map[string]agent.MCPServer) *confined {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	c := &confined{cwd: filepath.Join(top, "work"), home: filepath.Join(top, "home"), private: filepath.Join(top, "state", "private")}
	for path, content := range map[string]string{"work/own": "own", "keys": "planted", "home/.ssh/id_rsa": "planted", "data/file": "data"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(top, path)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(top, path), []byte(content), 0o600))
	}
	h, err := host.New(t.Context(), host.Config{
		File: &agent.File{CWD: c.cwd, Agents: []agent.Agent{{
			ID: "helper", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}, PermissionMode: "bypassPermissions", MCPServers: servers(c),
		}}},
		PrivateDir: c.private, Home: c.home,
		Getenv: func(name string) string {
			return map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": c.home, "LANG": "C.UTF-8"}[name]
		},
		Configure: func(cfg *runtime.Config, _ *mcp.Connector) {
			cfg.NewModel = func(agent.Provider) (model.Model, error) { return demo.New(0), nil }
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c.client, err = client.New(client.Config{BaseURL: server.URL})
	require.NoError(t, err)
	return c
}

// call calls a tool with a command, and returns its result.
func (c *confined) call(t *testing.T, tool, command string) wire.ToolResultDetail {
	t.Helper()
	input, err := json.Marshal(map[string]string{"command": command})
	require.NoError(t, err)
	var result wire.ToolResultDetail
	for ev, err := range c.client.Run(t.Context(), "helper", wire.RunRequest{Message: "/tool " + tool + " " + string(input)}) {
		require.NoError(t, err)
		if p, ok := ev.Payload.(*wire.ToolResult); ok {
			result = p.Result
		}
	}
	return result
}

// A stdio server has what its entry adds, and a home of its own, which outlives its process.
func TestStdioServersAreConfined(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	c := serveConfined(t, func(c *confined) map[string]agent.MCPServer {
		return map[string]agent.MCPServer{
			"plain": {Transport: agentvalue.TransportStdio, Command: self, Args: []string{serverRole}},
			"more": {Transport: agentvalue.TransportStdio, Command: self, Args: []string{serverRole},
				Sandbox: agent.Sandbox{Read: []string{"../data"}, Network: agentvalue.NetworkNone}},
			"place": {Transport: agentvalue.TransportStdio, Command: self, Args: []string{serverRole, c.home + "/.ssh/id_rsa"}, CWD: "../data"},
			"lost":  {Transport: agentvalue.TransportStdio, Command: "cat", Args: []string{c.home + "/.ssh"}},
		}
	})
	execute := func(server, script string) wire.ToolResultDetail {
		return c.call(t, "mcp__"+server+"__execute", script)
	}
	bash := func(script string) wire.ToolResultDetail { return c.call(t, "Bash", script) }
	for script, want := range map[string][3]bool{ // of plain, more, place
		"cat ../keys":                         {},
		"cat " + c.cwd + "/own":               {true, true, true},
		"cat " + c.cwd + "/../data/file":      {false, true, true},
		"echo >" + c.cwd + "/../data/new":     {false, false, true},
		"cat " + c.home + "/.ssh/id_rsa":      {false, false, true}, // its arguments name the file
		"test -n \"$http_proxy\"":             {true, false, true},
		"cat /proc/$PPID/environ | grep HOME": {true, true, true},
	} {
		for i, server := range []string{"plain", "more", "place"} {
			got := execute(server, script)
			require.Equal(t, want[i], !got.IsError, "%s: %s: %s", server, script, got.Output)
		}
	}
	require.True(t, bash("cat ../data/file").IsError, "what a server may read, the commands of its agent may not")

	homes := map[string]bool{}
	for _, server := range []string{"plain", "more"} {
		home := execute(server, "cd; pwd; pwd >cache").Output
		require.Contains(t, home, c.private)
		homes[home] = true
		require.True(t, execute(server, "kill -9 $PPID").IsError)
		require.Equal(t, home, execute(server, "cat ~/cache").Output, "it has started again")
	}
	homes[bash("cd; pwd").Output] = true
	require.Len(t, homes, 3)
	for home := range homes {
		require.True(t, bash("cat '"+strings.TrimSpace(home)+"/cache'").IsError)
	}
	var lost string
	for ev, err := range c.client.Run(t.Context(), "helper", wire.RunRequest{Message: "hello"}) {
		require.NoError(t, err)
		if p, ok := ev.Payload.(*wire.System); ok && p.Name == "lost" && p.Error != "" {
			lost = p.Error
		}
	}
	require.Contains(t, lost, "the command ended before it responded: exit status 1")
	require.Contains(t, lost, "An operator permits more with sandbox.read")
}
