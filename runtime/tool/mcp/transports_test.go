package mcp_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// carried are the definitions of toolServer over each transport.
var carried = map[string]func(t testing.TB) agent.MCPServer{
	"stdio": func(t testing.TB) agent.MCPServer { return stdio(t, "tools") },
	"http":  func(t testing.TB) agent.MCPServer { return overHTTP(web(t, streamable(toolServer())).URL) },
	"http with plain JSON": func(t testing.TB) agent.MCPServer {
		return overHTTP(web(t, streamableAs(toolServer(), &sdk.StreamableHTTPOptions{JSONResponse: true})).URL)
	},
	"http without sessions": func(t testing.TB) agent.MCPServer {
		return overHTTP(web(t, streamableAs(toolServer(), &sdk.StreamableHTTPOptions{Stateless: true})).URL)
	},
	"sse": func(t testing.TB) agent.MCPServer {
		return agent.MCPServer{Transport: agentvalue.TransportSSE, URL: web(t, sseHandler(toolServer())).URL}
	},
}

func TestToolsAndCalls(t *testing.T) {
	for name, def := range carried {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).open(def(t))
			require.Equal(t, "test", s.Name())
			require.Equal(t, tool.Pending, s.Status())
			tools := list(t, s)
			require.Equal(t, tool.Connected, s.Status())
			require.Equal(t, []string{ // of several pages, by name
				"mcp__test__crash", "mcp__test__cwd", "mcp__test__deaf", "mcp__test__echo", "mcp__test__environ", "mcp__test__fail",
				"mcp__test__family", "mcp__test__grow", "mcp__test__progress", "mcp__test__refuse", "mcp__test__wait",
			}, names(tools))
			require.Same(t, &tools[0], &list(t, s)[0], "the same tools are the same slice")
			spec := tools[3].Spec()
			require.Equal(t, "Does echo.", spec.Description)
			require.JSONEq(t, `{"type":"object"}`, string(spec.InputSchema))
			require.False(t, spec.ReadOnly)

			require.Equal(t, tool.Result{Output: "hello"}, call(t, find(t, s, "echo"), `{"text":"hello"}`))
			require.Equal(t, tool.Result{Output: "it did not work: x", IsError: true}, call(t, find(t, s, "fail"), `{"text":"x"}`))
			refused := call(t, find(t, s, "refuse"), `{}`)
			require.True(t, refused.IsError)
			require.Contains(t, refused.Output, "a protocol error")
			require.Equal(t, tool.Connected, s.Status())

			require.NoError(t, s.Close())
			require.Equal(t, tool.Failed, s.Status())
			require.Equal(t, tool.Result{Output: "mcp server test: the server was closed", IsError: true}, call(t, tools[3], `{}`))
			_, err := s.Tools(t.Context())
			require.EqualError(t, err, "mcp server test: the server was closed")
			require.NoError(t, s.Close())
		})
	}
}

// Each notification of progress of a call starts its time again.
func TestProgressOfACall(t *testing.T) {
	for name, def := range carried {
		if name == "http with plain JSON" { // the server has no stream for notifications
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).open(def(t))
			progress := find(t, s, "progress")
			for range 2 {
				var count atomic.Int32
				res, err := progress.Call(t.Context(), tool.Call{Input: []byte(`{}`), Progress: func() { count.Add(1) }})
				require.NoError(t, err)
				require.Equal(t, tool.Result{Output: "done"}, res)
				require.EqualValues(t, 3, count.Load())
			}
		})
	}
}

// Progress of a resource that is read counts too.
func TestProgressOfAResource(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "library", Version: "1"}, nil)
	server.AddResource(&sdk.Resource{URI: "book://slow", Name: "slow"}, func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		params := &sdk.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: 1}
		if err := req.Session.NotifyProgress(ctx, params); err != nil {
			return nil, err
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "book://slow", Text: "read"}}}, nil
	})
	found, err := newWorld(t).open(overHTTP(web(t, streamable(server)).URL)).Tools(t.Context())
	require.NoError(t, err)
	var count atomic.Int32
	res, err := found.Resources(t.Context(), tool.Call{Progress: func() { count.Add(1) }}, "book://slow")
	require.NoError(t, err)
	require.Equal(t, tool.Result{Output: "read"}, res)
	require.EqualValues(t, 1, count.Load())
}

func TestTimeoutOfAServer(t *testing.T) {
	def := carried["http"](t)
	for timeout, want := range map[time.Duration]time.Duration{0: time.Minute, time.Hour: time.Hour, time.Second: time.Second} {
		def.Timeout = timeout
		echo := find(t, newWorld(t).open(def), "echo").(tool.Timed)
		require.Equal(t, want, echo.Timeout(nil, time.Minute))
	}
}
