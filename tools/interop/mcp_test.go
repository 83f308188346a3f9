package interop_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// TestServerEverything calls the reference server on each transport.
func TestServerEverything(t *testing.T) {
	program := bin(t, "mcp-server-everything")
	remote := func(t *testing.T, transport, mode, path string) agent.MCPServer {
		port := freePort(t)
		start(t, t.TempDir(), []string{"PORT=" + port}, program, mode)
		awaitHTTP(t, "http://127.0.0.1:"+port+"/")
		return agent.MCPServer{Transport: transport, URL: "http://127.0.0.1:" + port + path}
	}
	for name, server := range map[string]func(t *testing.T) agent.MCPServer{
		"stdio": func(*testing.T) agent.MCPServer {
			return agent.MCPServer{Transport: agent.TransportStdio, Command: program, Args: []string{"stdio"}}
		},
		"sse":  func(t *testing.T) agent.MCPServer { return remote(t, agent.TransportSSE, "sse", "/sse") },
		"http": func(t *testing.T) agent.MCPServer { return remote(t, agent.TransportHTTP, "streamableHttp", "/mcp") },
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, agent.Agent{MCPServers: map[string]agent.MCPServer{"every": server(t)}})
			require.Contains(t, toolOutput(t, run(t, url, `/tool mcp__every__echo {"message":"hello"}`)), "hello")
			require.Contains(t, toolOutput(t, run(t, url, `/tool mcp__every__get-sum {"a":19,"b":23}`)), "42")
		})
	}
}

func TestServerFilesystem(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("from the file"), 0o600))
	url := serve(t, agent.Agent{MCPServers: map[string]agent.MCPServer{"files": {
		Transport: agent.TransportStdio, Command: bin(t, "mcp-server-filesystem"), Args: []string{dir},
	}}})
	output := toolOutput(t, run(t, url, `/tool mcp__files__read_text_file {"path":"`+filepath.Join(dir, "a.txt")+`"}`))
	require.Contains(t, output, "from the file")
}
