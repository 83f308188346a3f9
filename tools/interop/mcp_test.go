package interop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// transports are the transports of MCP with the argument of server-everything and its path.
var transports = map[string]struct{ mode, path string }{
	agentvalue.TransportStdio: {"stdio", ""}, agentvalue.TransportSSE: {"sse", "/sse"}, agentvalue.TransportHTTP: {"streamableHttp", "/mcp"},
}

// TestServerEverything calls the reference server on each transport: its results, images and tools
// for tasks, and sessions that it no longer knows after a restart.
func TestServerEverything(t *testing.T) {
	for transport, is := range transports {
		t.Run(transport, func(t *testing.T) {
			command := bin(t, "mcp-server-everything")
			server, restart := agent.MCPServer{Transport: transport, Command: command, Args: []string{is.mode}}, func() {}
			if transport != agentvalue.TransportStdio {
				port := freePort(t)
				server = agent.MCPServer{Transport: transport, URL: "http://127.0.0.1:" + port + is.path}
				launch := func() *program {
					p := start(t, t.TempDir(), []string{"PORT=" + port}, command, is.mode)
					awaitHTTP(t, "http://127.0.0.1:"+port+"/")
					return p
				}
				running := launch()
				restart = func() {
					running.kill()
					running = launch()
				}
			}
			long := "every-" + strings.Repeat("x", 40)
			url := serve(t, agent.Agent{MCPServers: map[string]agent.MCPServer{"every": server, long: server}})
			events := run(t, url, `/tool mcp__every__echo {"message":"hello"}`)
			require.Contains(t, toolOutput(t, events), "hello")
			require.Contains(t, warnings(events), `The tool "simulate-research-query" of the MCP server "every" is left out: it can only be called as a task`)
			require.Contains(t, toolOutput(t, run(t, url, `/tool mcp__every__get-sum {"a":19,"b":23}`)), "42")
			require.Contains(t, toolOutput(t, run(t, url, `/tool mcp__every__get-tiny-image {}`)), "[image image/png, ")
			require.Contains(t, toolOutput(t, run(t, url, `/tool mcp__every__get-resource-reference {}`)), "Resource 1")
			// A name of more than 64 characters is shortened with a hash.
			require.Contains(t, toolOutput(t, run(t, url, `/tool mcp__`+long+`__ge_d8b7183f {"location":"Chicago"}`)), "Light rain")
			restart()
			require.Contains(t, toolOutput(t, run(t, url, `/tool mcp__every__echo {"message":"again"}`)), "again")
		})
	}
}

// TestImages sends an image of the reference server to a model. On the OpenAI wire the model
// receives a text.
func TestImages(t *testing.T) {
	for protocol, images := range map[modeltest.Protocol]int{modeltest.Anthropic: 1, modeltest.OpenAI: 0} {
		t.Run(string(protocol), func(t *testing.T) {
			up := modeltest.Start(t, protocol, modeltest.Stream(modeltest.ToolCall("t1", "mcp__every__get-tiny-image", `{}`)),
				modeltest.Stream(modeltest.Text("I see.")))
			url := serve(t, agent.Agent{Model: "m", Provider: agent.Provider{Protocol: string(protocol), BaseURL: agent.Secret(up.URL), APIKey: "k"},
				MCPServers: map[string]agent.MCPServer{"every": {Transport: agentvalue.TransportStdio, Command: bin(t, "mcp-server-everything"), Args: []string{"stdio"}}}})
			require.Equal(t, "I see.", resultText(t, run(t, url, "Look.")))
			sent := string(up.Requests()[1].Body)
			require.Equal(t, images, strings.Count(sent, `"media_type":"image/png"`))
			require.Contains(t, sent, "[image image/png, ")
		})
	}
}

// TestServerFilesystem calls the file server, which has only stdio, directly and through a bridge
// to the other transports.
func TestServerFilesystem(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("from the file"), 0o600))
	command := bin(t, "mcp-server-filesystem")
	bridged := func(t *testing.T, args ...string) string {
		port := freePort(t)
		start(t, dir, nil, bin(t, "supergateway"), append([]string{"--stdio", command + " " + dir, "--port", port, "--healthEndpoint", "/health"}, args...)...)
		awaitHTTP(t, "http://127.0.0.1:"+port+"/health")
		return "http://127.0.0.1:" + port
	}
	for name, server := range map[string]func(t *testing.T) agent.MCPServer{
		"stdio": func(*testing.T) agent.MCPServer {
			return agent.MCPServer{Transport: agentvalue.TransportStdio, Command: command, Args: []string{dir}}
		},
		"sse": func(t *testing.T) agent.MCPServer {
			return agent.MCPServer{Transport: agentvalue.TransportSSE, URL: bridged(t, "--outputTransport", "sse") + "/sse"}
		},
		"http": func(t *testing.T) agent.MCPServer {
			return agent.MCPServer{Transport: agentvalue.TransportHTTP, URL: bridged(t, "--outputTransport", "streamableHttp", "--stateful") + "/mcp"}
		},
		"http without sessions": func(t *testing.T) agent.MCPServer {
			return agent.MCPServer{Transport: agentvalue.TransportHTTP, URL: bridged(t, "--outputTransport", "streamableHttp") + "/mcp"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, agent.Agent{MCPServers: map[string]agent.MCPServer{"files": server(t)}})
			path := filepath.Join(dir, "a.txt")
			require.Contains(t, toolOutput(t, run(t, url, `/tool mcp__files__read_text_file {"path":"`+path+`"}`)), "from the file")
			require.Contains(t, toolOutput(t, run(t, url, `/tool mcp__files__list_directory {"path":"`+dir+`"}`)), "a.txt")
		})
	}
}

// warnings returns the messages of the warnings in the events.
func warnings(events []wire.Event) string {
	var lines []string
	for _, e := range events {
		if system, ok := e.Payload.(*wire.System); ok && system.Subtype == runvalue.SystemWarning {
			lines = append(lines, system.Message)
		}
	}
	return strings.Join(lines, "\n")
}
