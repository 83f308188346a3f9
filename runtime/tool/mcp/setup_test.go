package mcp_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

// long is a timeout that only a bug reaches.
const long = 2 * time.Minute

// TestMain makes the test binary the stdio server of its tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "serve" {
		os.Exit(serve(os.Args[2]))
	}
	debug.SetGCPercent(400) // the collector takes a third of the processor time otherwise
	// The servers of tests are those of the SDK, which may keep a session whose client is gone.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read"))
}

// world is a connector, its log, and a directory in which servers write their process ids.
type world struct {
	*mcp.Connector
	t      testing.TB
	dir    string
	log    *logtest.Buffer
	limits agent.Limits
}

func newWorld(t testing.TB, change ...func(*mcp.Config)) *world {
	t.Helper()
	w := (&world{t: t, dir: t.TempDir(), log: &logtest.Buffer{}}).within(long)
	cfg := mcp.Config{
		CWD:    w.dir,
		Env:    []string{"PATH=/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"}, // otherwise a server exits 1 s late under the race detector
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	w.Connector, err = mcp.New(cfg)
	require.NoError(t, err)
	return w
}

// within sets the time in which servers connect.
func (w *world) within(d time.Duration) *world {
	w.limits.MCPConnectTimeout, w.limits.MCPStartTimeout = d, d
	return w
}

// stdio returns the definition of the test binary in a role.
func stdio(t testing.TB, role string) agent.MCPServer {
	self, err := os.Executable()
	require.NoError(t, err)
	return agent.MCPServer{Transport: agentvalue.TransportStdio, Command: self, Args: []string{"serve", role}}
}

// open opens a server under the name test. The cleanup checks that none of its processes is left. A
// command starts in w.dir, where it leaves its process id.
func (w *world) open(def agent.MCPServer) tool.Server {
	w.t.Helper()
	if def.Transport == agentvalue.TransportStdio && def.CWD == "" {
		def.CWD = "."
	}
	s, err := w.Open("test", def, w.limits, nil)
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		require.NoError(w.t, s.Close())
		pids, err := filepath.Glob(filepath.Join(w.dir, "*.pid"))
		require.NoError(w.t, err)
		for _, file := range pids {
			w.requireDead(readPID(w.t, file))
		}
	})
	return s
}

func readPID(t testing.TB, file string) int {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(string(data))
	require.NoError(t, err)
	return pid
}

// pids returns the ids of the processes of a role. It waits for the first.
func (w *world) pids(role string) (pids []int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		files, _ := filepath.Glob(filepath.Join(w.dir, role+"-*.pid"))
		pids = nil
		for _, f := range files {
			pids = append(pids, readPID(w.t, f))
		}
		return len(pids) > 0
	}, long, 5*time.Millisecond)
	return pids
}

func (w *world) requireDead(pid int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return !alive(pid) }, long, 5*time.Millisecond, "process %d lives", pid)
}

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, fields, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(fields, "Z") && !strings.HasPrefix(fields, "X")
}

func list(t testing.TB, s tool.Server) []tool.Tool {
	t.Helper()
	found, err := s.Tools(t.Context())
	require.NoError(t, err)
	return found.Tools
}

func names(tools []tool.Tool) (names []string) {
	for _, v := range tools {
		names = append(names, v.Spec().Name)
	}
	return names
}

func find(t testing.TB, s tool.Server, name string) tool.Tool {
	t.Helper()
	for _, v := range list(t, s) {
		if v.Spec().Name == "mcp__test__"+name {
			return v
		}
	}
	require.Fail(t, "no tool "+name)
	return nil
}

func call(t testing.TB, v tool.Tool, input string) tool.Result {
	t.Helper()
	res, err := v.Call(t.Context(), tool.Call{ID: "t1", Input: json.RawMessage(input)})
	require.NoError(t, err)
	return res
}

// requireStatus waits for a status: the loss of a connection is noticed with a delay.
func requireStatus(t testing.TB, s tool.Server, want tool.Status) {
	t.Helper()
	require.Eventually(t, func() bool { return s.Status() == want }, long, time.Millisecond, "never %s", want)
}

// web serves handler until the test ends.
func web(t testing.TB, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

func streamable(server *sdk.Server) http.Handler { return streamableAs(server, nil) }

func streamableAs(server *sdk.Server, opts *sdk.StreamableHTTPOptions) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, opts)
}

func sseHandler(server *sdk.Server) http.Handler {
	return sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return server }, nil)
}

func overHTTP(url string) agent.MCPServer {
	return agent.MCPServer{Transport: agentvalue.TransportHTTP, URL: url}
}

// answers returns a tool handler that passes the argument text to f.
func answers(f func(ctx context.Context, text string) (*sdk.CallToolResult, error)) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in struct{ Text string }
		if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
			return nil, err
		}
		return f(ctx, in.Text)
	}
}

func says(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

func offer(server *sdk.Server, name string, handler sdk.ToolHandler) {
	server.AddTool(&sdk.Tool{Name: name, Description: "Does " + name + ".", InputSchema: map[string]any{"type": "object"}}, handler)
}
