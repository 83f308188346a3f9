package interop_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/protocol/openai"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const (
	key      = "interop-key"
	patience = 60 * time.Second
)

// serve returns the address of a runtime with one agent, which has every tool. Its working
// directory has a file a.txt.
func serve(t *testing.T, a agent.Agent) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("a file"), 0o600))
	servers, err := mcp.New(mcp.Config{CWD: dir, Name: "agenthost", Version: "interop",
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir}})
	require.NoError(t, err)
	a.ID, a.PermissionMode = "bot", "bypassPermissions"
	if a.Model == "" {
		a.Model, a.Provider.Protocol = "demo", agent.ProtocolDemo
	}
	rt, err := runtime.New(t.Context(), runtime.Config{
		Agents: []agent.Agent{a}, APIKeys: []string{key}, CWD: dir, OpenMCP: servers.Open,
		Limits: agent.Limits{MCPConnectTimeout: patience, MCPStartTimeout: patience},
		Protocols: map[string]func(*runtime.Runtime) http.Handler{
			"/openai/v1": func(rt *runtime.Runtime) http.Handler { return openai.New(openai.Config{Host: rt}) },
		},
	})
	require.NoError(t, err)
	server := httptest.NewServer(rt)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		require.NoError(t, rt.Close())
	})
	return server.URL
}

// run runs a message and returns all events.
func run(t *testing.T, url, message string) []wire.Event {
	t.Helper()
	c, err := client.New(client.Config{BaseURL: url, APIKey: key})
	require.NoError(t, err)
	var events []wire.Event
	for event, err := range c.Run(t.Context(), "bot", wire.RunRequest{Message: message}) {
		require.NoError(t, err)
		events = append(events, event)
	}
	return events
}

// toolOutput returns the output of the one tool call in the events.
func toolOutput(t *testing.T, events []wire.Event) string {
	t.Helper()
	for _, e := range events {
		if result, ok := e.Payload.(*wire.ToolResult); ok {
			require.False(t, result.Result.IsError, result.Result.Output)
			return result.Result.Output
		}
	}
	require.Fail(t, "no tool result", "%v", events)
	return ""
}

// resultText returns the text of the final event of a successful run.
func resultText(t *testing.T, events []wire.Event) string {
	t.Helper()
	for _, e := range events {
		if result, ok := e.Payload.(*wire.Result); ok {
			require.Equal(t, "success", result.Subtype, "%v", result.Errors)
			return *result.Result
		}
	}
	require.Fail(t, "no result", "%v", events)
	return ""
}

// program is a running third-party program.
type program struct {
	log  logtest.Buffer
	kill func()                                    // ends its process group and waits
	stop func(t *testing.T, signal syscall.Signal) // sends the signal to the program and waits
}

// start starts a program until the test ends. Programs of Node.js listen only on loopback.
func start(t *testing.T, dir string, env []string, name string, args ...string) *program {
	t.Helper()
	loopback, err := filepath.Abs("loopback.mjs")
	require.NoError(t, err)
	p := new(program)
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &p.log, &p.log
	cmd.Env = append(append(cmd.Environ(), "NODE_OPTIONS=--import "+loopback), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	require.NoError(t, cmd.Start())
	p.kill = sync.OnceFunc(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	p.stop = func(t *testing.T, signal syscall.Signal) {
		t.Helper()
		require.NoError(t, cmd.Process.Signal(signal))
		require.NoError(t, cmd.Wait())
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s: %s", name, p.log.String())
		}
	})
	return p
}

// bin returns the path of a program of package.json.
func bin(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("node_modules", ".bin", name))
	require.NoError(t, err)
	return path
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// awaitHTTP waits until the address responds with any status.
func awaitHTTP(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		require.NoError(t, err)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.Fail(t, "no response from "+url)
		}
	}
}
