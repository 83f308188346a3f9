package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

// seen records requests.
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
		"within it, as a GET":    {"http", http.StatusFound, false, "change the method of the request"},
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
			require.Empty(t, other.all(), "no request reached it")
		})
	}
}

// The endpoint that an sse server names must have the origin of the server.
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
				t.Cleanup(func() { // no client ends a session that is lost
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
			require.Eventually(t, func() bool { // an idle connection may break first
				res := call(t, echo, `{}`)
				require.True(t, res.IsError)
				require.NotContains(t, res.Output, server.URL)
				return strings.Contains(res.Output, "refused")
			}, long, 10*time.Millisecond)
			require.Equal(t, tool.Failed, s.Status())
		})
	}
}

// A server that reports a lost session with 400 is called again in a new session, once, if the call
// has reached no tool.
func TestSessionReportedAsUnknown(t *testing.T) {
	const sessionError = `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`
	for name, row := range map[string]struct {
		transport    string
		status       int
		body         string
		times        int // that a call is rejected
		calls, inits int
		want         string
	}{
		"400":                      {"http", 400, sessionError, 1, 2, 2, "again"},
		"400, not initialized":     {"http", 400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Server not initialized"}}`, 1, 2, 2, "again"},
		"400 with another id":      {"http", 400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Bad Request: Missing session ID"},"id":"server-error"}`, 1, 2, 2, "again"},
		"400 of the example":       {"http", 400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":$}`, 1, 2, 2, "again"},
		"400, as text":             {"http", 400, "Invalid session ID", 1, 2, 2, "again"},
		"400 each time":            {"http", 400, sessionError, 9, 2, 2, "the call was not sent: the server no longer knows the session"},
		"404":                      {"http", 404, "", 1, 2, 2, "again"},
		"400 as the response":      {"http", 400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"no session of yours"},"id":$}`, 1, 1, 1, "the call failed: no session of yours"},
		"400 for another reason":   {"http", 400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}`, 1, 1, 1, "Invalid Request"},
		"400 as text, for another": {"http", 400, "no", 1, 1, 1, "Bad Request"},
		"another status":           {"http", 422, sessionError, 1, 1, 1, "the call failed: Bad Request: No valid session ID provided"},
	} {
		t.Run(name, func(t *testing.T) {
			var calls, inits atomic.Int32
			next := rawHandler(func(method string, params json.RawMessage) string {
				if method == "tools/list" {
					return lists(entry("a", ""))(method, params)
				}
				return `{"content":[{"type":"text","text":"again"}]}`
			})
			s := newWorld(t).open(agent.MCPServer{Transport: row.transport, URL: web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(data))
				if bytes.Contains(data, []byte(`"initialize"`)) {
					inits.Add(1)
				}
				if !bytes.Contains(data, []byte(`"tools/call"`)) || int(calls.Add(1)) > row.times {
					next.ServeHTTP(w, r)
					return
				}
				var message struct{ ID json.RawMessage }
				_ = json.Unmarshal(data, &message) // then the body has no id
				http.Error(w, strings.ReplaceAll(row.body, "$", string(message.ID)), row.status)
			})).URL})
			require.Contains(t, call(t, find(t, s, "a"), `{}`).Output, row.want)
			require.Equal(t, row.calls, int(calls.Load()))
			require.Equal(t, row.inits, int(inits.Load()))
		})
	}
}

// A server that has lost its sessions may refuse their messages with any status and text. After
// such a call, a ping shows whether it knows the session.
func TestSessionThatIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		all    bool // refuse every message of the session; false: only the call
		ended  bool
	}{
		"400":              {400, true, true},
		"405":              {405, true, true},
		"409":              {409, true, true},
		"410":              {410, true, true},
		"422":              {422, true, true},
		"one call":         {413, false, false},
		"no credentials":   {401, true, false},
		"not permitted":    {403, true, false},
		"many requests":    {429, true, false},
		"an outage":        {503, true, false},
		"an error of ours": {500, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var sessions atomic.Int32
			var restarted atomic.Bool
			next := rawHandler(func(method string, params json.RawMessage) string {
				if method == "tools/list" {
					return lists(entry("a", ""))(method, params)
				}
				return `{}`
			})
			s := newWorld(t).open(overHTTP(web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				if bytes.Contains(data, []byte(`"initialize"`)) && sessions.Add(1) > 1 {
					restarted.Store(false) // the new session is known
				}
				if restarted.Load() && r.Method == http.MethodPost && (row.all || bytes.Contains(data, []byte(`"tools/call"`))) {
					w.WriteHeader(row.status)
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(data))
				next.ServeHTTP(w, r)
			})).URL))
			a := find(t, s, "a")
			restarted.Store(true)
			res := call(t, a, `{}`)
			require.Contains(t, res.Output, "the call failed: the server responded with "+fmt.Sprint(row.status), "it is not sent again")
			require.True(t, res.IsError)
			res = call(t, a, `{}`)
			require.Equal(t, !row.ended, res.IsError, res.Output)
			require.Equal(t, row.ended, sessions.Load() == 2)
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

func TestAResponseThatIsTooLarge(t *testing.T) {
	s := newWorld(t).open(raw(t, func(method string, params json.RawMessage) string {
		if method == "tools/list" {
			return lists(entry("a", ""))(method, params)
		}
		return `{"content":[{"type":"text","text":"` + strings.Repeat("x", 17<<20) + `"}]}`
	}))
	res := call(t, find(t, s, "a"), `{}`)
	require.True(t, res.IsError)
	require.Contains(t, res.Output, "the response is larger than 16 MiB")
	require.NotEmpty(t, list(t, s), "the next call connects again")
}

// Some servers send the headers of the stream of notifications only with the first notification.
func TestStreamThatDoesNotBegin(t *testing.T) {
	t.Parallel()
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

// A server that rejects every message is asked once in each protocol, and not in another
// connection.
func TestAServerThatRejectsEveryMessage(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"method not found":    {400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found"}}`, "mcp server test: method not found"},
		"a code of the SDK":   {400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32004,"message":"no"}}`, "mcp server test: no"},
		"an outage":           {503, `soon`, "mcp server test: the server responded with 503 Service Unavailable: soon"},
		"no credentials":      {401, `{"error":"invalid_token","error_description":"The token has expired"}`, "mcp server test: the server responded with 401 Unauthorized: The token has expired (configure headers or oauth of the server)"},
		"credentials in text": {403, `denied by *policy*`, "mcp server test: the server responded with 403 Forbidden: denied by *policy* (configure headers or oauth of the server)"},
	} {
		t.Run(name, func(t *testing.T) {
			var messages atomic.Int32
			s := newWorld(t).open(overHTTP(web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				messages.Add(1)
				w.Header().Set("Content-Type", "text/plain")
				if strings.HasPrefix(row.body, "{") {
					w.Header().Set("Content-Type", "application/json")
				}
				w.WriteHeader(row.status)
				fmt.Fprint(w, row.body)
			})).URL))
			_, err := s.Tools(t.Context())
			require.EqualError(t, err, row.want)
			require.EqualValues(t, 2, messages.Load())
		})
	}
}

func TestWrongPathOfAServer(t *testing.T) {
	s := newWorld(t).open(overHTTP(web(t, http.NotFoundHandler()).URL + "/mpc"))
	_, err := s.Tools(t.Context())
	require.EqualError(t, err, "mcp server test: the server responded with 404 Not Found: 404 page not found (check the path of url, and that transport is that of the server)")
}

// A server sends requests that this client does not support.
func TestRequestsOfTheServerAreRejected(t *testing.T) {
	server := toolServer()
	got := make(chan []error, 1)
	offer(server, "ask", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_, roots := req.Session.ListRoots(ctx, nil)                             //nolint:staticcheck // servers still send it
		_, sample := req.Session.CreateMessage(ctx, &sdk.CreateMessageParams{}) //nolint:staticcheck // servers still send it
		_, elicit := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "?"})
		got <- []error{roots, sample, elicit, req.Session.Ping(ctx, nil)}
		caps := req.Session.InitializeParams().Capabilities
		//nolint:staticcheck // the SDK announces deprecated capabilities by default
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
	require.NoError(t, errs[3], "a ping has a response")
}
