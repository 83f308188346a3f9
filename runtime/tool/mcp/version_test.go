package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// A server that knows both protocols is served in the newer one, in which it can ask.
func TestAServerOfBothProtocolsAsks(t *testing.T) {
	for name, def := range map[string]func(*testing.T) agent.MCPServer{
		"stdio": func(t *testing.T) agent.MCPServer { return stdio(t, "both") },
		"http": func(t *testing.T) agent.MCPServer {
			return overHTTP(web(t, streamableAs(bothAsker(), &sdk.StreamableHTTPOptions{Stateless: true})).URL)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := openDesk(t, map[string]agent.MCPServer{"plane": def(t)}, calls("mcp__plane__ask", `{}`), done())
			d.answer(t, d.ask(t), accept(`{"row":1}`))
			require.Equal(t, map[string]string{"t1": "accept map[row:1], state the seat of {}"}, d.results(t))
		})
	}
}

func bothAsker() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "both", Version: "1"}, nil)
	offer(server, "ask", bookSeat)
	return server
}

// A server from before 2026 rejects server/discover, ignores it, or ends: initialize follows.
func TestOlderServersAndTheFirstMessage(t *testing.T) {
	for name, row := range map[string]struct {
		role  string
		limit time.Duration
		times int // that it is started
	}{
		"a command that rejects it": {"single", long, 1},
		"that ignores it":           {"ignores", 6 * time.Second, 1},
		"that ends":                 {"strict", long, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).within(row.limit)
			s := w.open(stdio(t, row.role))
			require.Equal(t, tool.Result{Output: "said"}, call(t, find(t, s, "say"), `{}`))
			require.Len(t, w.pids(row.role), row.times)
		})
	}
	for name, reject := range map[string]func(http.ResponseWriter, *http.Request, json.RawMessage){
		"404": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) { http.NotFound(w, r) },
		"401": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.WriteHeader(http.StatusUnauthorized)
		},
		"503": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		"an empty response": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) { w.WriteHeader(http.StatusAccepted) },
		"no message": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "hello")
		},
		"invalid params": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"initialize first"}}`, id)
		},
		"no response": func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { <-r.Context().Done() },
		"no subscription": func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}}`, id)
		},
	} {
		t.Run("http, "+name, func(t *testing.T) {
			t.Parallel()
			limit := long
			if name == "no response" {
				limit = 4 * time.Second
			}
			var discovered atomic.Int32
			older := rawHandler(lists(entry("a", "")))
			s := newWorld(t).within(limit).open(overHTTP(web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data, err := io.ReadAll(r.Body)
				var m struct {
					ID     json.RawMessage
					Method string
				}
				if err == nil && json.Unmarshal(data, &m) == nil && m.Method == "server/discover" {
					discovered.Add(1)
					reject(w, r, m.ID)
					return
				}
				if m.Method == "subscriptions/listen" {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				r.Body = io.NopCloser(strings.NewReader(string(data)))
				older.ServeHTTP(w, r)
			})).URL))
			require.Len(t, list(t, s), 1)
			require.EqualValues(t, 1, discovered.Load())
		})
	}
}

// A question within a call of an older protocol is declined: the call does not fail.
func TestAQuestionOfAnOlderProtocolIsDeclined(t *testing.T) {
	w := newWorld(t)
	require.Equal(t, tool.Result{Output: `{"action":"decline"}`}, call(t, find(t, w.open(stdio(t, "single")), "elicit"), `{}`))
}

// An approval is valid for the definition of the server. It is compared before the first byte of
// the response, and without a connection.
func TestAnApprovalIsForTheDefinitionOfTheServer(t *testing.T) {
	var ran atomic.Int32
	handler := streamable(func() *sdk.Server {
		server := sdk.NewServer(&sdk.Implementation{Name: "s", Version: "1"}, nil)
		offer(server, "erase", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			ran.Add(1)
			return says("erased"), nil
		})
		return server
	}())
	def, other := overHTTP(web(t, handler).URL), overHTTP(web(t, handler).URL)
	d := openDesk(t, map[string]agent.MCPServer{"s": def}, calls("mcp__s__erase", `{"all":"no"}`), done())
	d.change = func(a *agent.Agent) { a.PermissionMode = "default" }
	d.start(t)
	waiting, err := d.Complete(t.Context(), "helper", wire.RunRequest{Message: "go", Inputs: []string{"approval"}})
	require.NoError(t, err)
	for _, servers := range []map[string]agent.MCPServer{{"s": other}, {"t": def}} {
		d.servers = servers
		d.start(t)
		for _, input := range []json.RawMessage{nil, json.RawMessage(`{"all":"yes"}`)} {
			_, err := d.try(t, waiting, wire.Answer{Decision: "approve", Input: input})
			var refused *client.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "Call changed", refused.Body.Error)
			require.Contains(t, refused.Body.Reason, "the MCP server of the tool is defined in another way")
		}
	}
	withHeaders := def
	withHeaders.Headers = map[string]agent.Secret{"Authorization": "Bearer another-token"}
	d.servers = map[string]agent.MCPServer{"s": withHeaders}
	d.start(t)
	d.answer(t, waiting, wire.Answer{Decision: "approve"})
	require.Equal(t, map[string]string{"t1": "erased"}, d.results(t))
	require.EqualValues(t, 1, ran.Load())
}
