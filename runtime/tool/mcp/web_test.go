package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// seen keeps the requests that pass.
type seen struct {
	mu   sync.Mutex
	reqs []*http.Request
	next http.Handler
}

func (s *seen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.reqs = append(s.reqs, r.Clone(r.Context()))
	s.mu.Unlock()
	s.next.ServeHTTP(w, r)
}

func (s *seen) all() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reqs
}

func TestHeadersGoWithEachRequest(t *testing.T) {
	for transport, handler := range map[string]http.Handler{"http": streamable(toolServer()), "sse": sseHandler(toolServer())} {
		t.Run(transport, func(t *testing.T) {
			passing := &seen{next: handler}
			s := newWorld(t).open(agent.MCPServer{
				Transport: transport, URL: web(t, passing).URL,
				Headers: map[string]agent.Secret{"x-api-key": "s3cret", "Authorization": "Bearer t0ken", "Content-Type": "text/plain"},
			})
			require.Equal(t, "a", call(t, find(t, s, "echo"), `{"text":"a"}`).Output)
			require.NoError(t, s.Close())
			methods := map[string]bool{}
			for _, r := range passing.all() {
				methods[r.Method] = true
				require.Equal(t, "s3cret", r.Header.Get("X-Api-Key"), r.Method)
				require.Equal(t, "Bearer t0ken", r.Header.Get("Authorization"), r.Method)
				if r.Method == http.MethodPost {
					require.Equal(t, "application/json", r.Header.Get("Content-Type"))
				}
			}
			require.True(t, methods["POST"] && methods["GET"])
			require.Equal(t, transport == "http", methods["DELETE"], "the session is ended")
		})
	}
}

func TestRedirects(t *testing.T) {
	for name, row := range map[string]struct {
		transport string
		status    int
		away      bool
		want      string // "" works
	}{
		"to another origin":      {"http", http.StatusTemporaryRedirect, true, "another origin"},
		"to another origin, 308": {"http", http.StatusPermanentRedirect, true, "another origin"},
		"to another origin, GET": {"sse", http.StatusFound, true, "another origin"},
		"within the origin":      {"http", http.StatusTemporaryRedirect, false, ""},
		"within it, as a GET":    {"http", http.StatusFound, false, "turn the request into another one"},
	} {
		t.Run(name, func(t *testing.T) {
			other := &seen{next: streamable(toolServer())}
			target := web(t, other).URL
			mux := http.NewServeMux()
			mux.Handle("/there", other)
			mux.HandleFunc("/here", func(w http.ResponseWriter, r *http.Request) {
				if row.away {
					http.Redirect(w, r, target+"/there?token=abcdefgh", row.status)
					return
				}
				http.Redirect(w, r, "/there", row.status)
			})
			s := newWorld(t).open(agent.MCPServer{
				Transport: row.transport, URL: web(t, mux).URL + "/here", Headers: map[string]agent.Secret{"x-api-key": "s3cret"},
			})
			_, err := s.Tools(t.Context())
			if row.want == "" {
				require.NoError(t, err)
				require.NotEmpty(t, other.all())
				return
			}
			require.ErrorContains(t, err, row.want)
			require.Empty(t, other.all(), "nothing reached it, no header either")
		})
	}
}

// An sse server says where it wants its messages, which must not be somewhere else.
func TestEndpointElsewhere(t *testing.T) {
	other := &seen{next: http.NotFoundHandler()}
	target := web(t, other).URL
	from := web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", target)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	s := newWorld(t).open(agent.MCPServer{Transport: "sse", URL: from.URL, Headers: map[string]agent.Secret{"x-api-key": "s3cret"}})
	_, err := s.Tools(t.Context())
	require.ErrorContains(t, err, "another origin")
	require.Empty(t, other.all())
}

func TestServerThatLostItsSessions(t *testing.T) {
	for transport, fresh := range map[string]func(*sdk.Server) http.Handler{"http": streamable, "sse": sseHandler} {
		t.Run(transport, func(t *testing.T) {
			var handler atomic.Pointer[http.Handler]
			restart := func() {
				server := toolServer()
				h := fresh(server)
				handler.Store(&h)
				t.Cleanup(func() { // nobody says goodbye to a session that nobody can find
					for session := range server.Sessions() {
						session.Close()
					}
				})
			}
			restart()
			server := web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				(*handler.Load()).ServeHTTP(w, r)
			}))
			s := newWorld(t).open(agent.MCPServer{Transport: transport, URL: server.URL})
			echo := find(t, s, "echo")
			restart()
			require.Equal(t, tool.Result{Output: "a"}, call(t, echo, `{"text":"a"}`))
			require.Equal(t, tool.Connected, s.Status())

			server.CloseClientConnections()
			restart()
			requireWorks(t, echo)

			server.CloseClientConnections()
			server.Close()
			require.Eventually(t, func() bool { // a connection that was kept may break first
				res := call(t, echo, `{}`)
				require.True(t, res.IsError)
				require.NotContains(t, res.Output, server.URL)
				return strings.Contains(res.Output, "refused")
			}, long, 10*time.Millisecond)
			require.Equal(t, tool.Failed, s.Status())
		})
	}
}

func requireWorks(t *testing.T, v tool.Tool) {
	t.Helper()
	require.Eventually(t, func() bool {
		res, err := v.Call(t.Context(), tool.Call{Input: []byte(`{"text":"a"}`)})
		return err == nil && !res.IsError
	}, long, 10*time.Millisecond)
}

func TestAnswerThatIsTooLarge(t *testing.T) {
	s := newWorld(t).open(raw(t, func(method string, params json.RawMessage) string {
		if method == "tools/list" {
			return lists(entry("a", ""))(method, params)
		}
		return `{"content":[{"type":"text","text":"` + strings.Repeat("x", 17<<20) + `"}]}`
	}))
	res := call(t, find(t, s, "a"), `{}`)
	require.True(t, res.IsError)
	require.Contains(t, res.Output, "the answer is larger than 16 MiB")
	require.NotEmpty(t, list(t, s), "and it is there again")
}

// Some servers hold back the headers of the stream for what they say unasked, until there is something to say.
func TestStreamThatDoesNotBegin(t *testing.T) {
	answers := rawHandler(lists(entry("a", "")))
	s := newWorld(t).open(overHTTP(web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-r.Context().Done()
			return
		}
		answers.ServeHTTP(w, r)
	})).URL))
	require.Len(t, list(t, s), 1)
}

// A server of the newest protocol may not know initialize.
func TestServerWithoutInitialize(t *testing.T) {
	handler := streamableAs(toolServer(), &sdk.StreamableHTTPOptions{Stateless: true})
	s := newWorld(t).open(overHTTP(web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Protocol-Version") >= "2026" {
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found"}}`)
	})).URL))
	require.Equal(t, tool.Result{Output: "a"}, call(t, find(t, s, "echo"), `{"text":"a"}`))
}

// A session of a server asks this client for what it does not offer.
func TestServerAsksForNothing(t *testing.T) {
	server := toolServer()
	got := make(chan []error, 1)
	offer(server, "ask", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_, roots := req.Session.ListRoots(ctx, nil)                             //nolint:staticcheck // still asked by servers
		_, sample := req.Session.CreateMessage(ctx, &sdk.CreateMessageParams{}) //nolint:staticcheck // still asked by servers
		_, elicit := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "?"})
		got <- []error{roots, sample, elicit, req.Session.Ping(ctx, nil)}
		caps := req.Session.InitializeParams().Capabilities
		//nolint:staticcheck // what is deprecated is announced by the SDK unless it is told not to
		if caps.RootsV2 != nil || caps.Sampling != nil || caps.Elicitation != nil {
			return says("something is announced"), nil
		}
		return says("done"), nil
	})
	s := newWorld(t).open(overHTTP(web(t, streamable(server)).URL))
	require.Equal(t, tool.Result{Output: "done"}, call(t, find(t, s, "ask"), `{}`))
	errs := <-got
	for _, err := range errs[:3] {
		require.Error(t, err)
	}
	require.NoError(t, errs[3], "a ping is answered")
}
