package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Credentials can be rejected later than by initialize, and over sse with the stream.
func TestRejectedCredentials(t *testing.T) {
	const want = "the server responded with 401 Unauthorized: The token has expired (configure headers or oauth of the server)"
	for _, rejected := range []string{"tools/list", "tools/call"} {
		t.Run(rejected, func(t *testing.T) {
			next := rawHandler(func(method string, params json.RawMessage) string { return lists(entry("a", ""))(method, params) })
			s := newWorld(t).open(overHTTP(web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				data, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				if bytes.Contains(data, []byte(`"`+rejected+`"`)) {
					http.Error(w, `{"error":"invalid_token","error_description":"The token has expired"}`, http.StatusUnauthorized)
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(data))
				next.ServeHTTP(w, r)
			})).URL))
			found, err := s.Tools(t.Context())
			if rejected == "tools/list" {
				require.EqualError(t, err, "mcp server test: "+want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tool.Result{Output: "mcp server test: the call failed: " + want, IsError: true}, call(t, found.Tools[0], `{}`))
			require.Equal(t, tool.Connected, s.Status(), "another call may have the permission")
		})
	}
	t.Run("sse", func(t *testing.T) {
		s := newWorld(t).open(agent.MCPServer{Transport: "sse", URL: web(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "The token has expired", http.StatusUnauthorized)
		})).URL})
		_, err := s.Tools(t.Context())
		require.EqualError(t, err, "mcp server test: "+want)
	})
}

// A server may require that the user opens a page, which a run cannot do.
func TestPageThatTheUserMustOpen(t *testing.T) {
	s := newWorld(t).open(overHTTP(web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if bytes.Contains(data, []byte(`"tools/call"`)) {
			var message struct{ ID json.RawMessage }
			_ = json.Unmarshal(data, &message) // then the response has no id
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"Sign in to Notes","data":{"elicitations":[`+
				`{"mode":"url","elicitationId":"e1","url":"https://notes.example/sign-in","message":"Sign in"}]}}}`, message.ID)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(data))
		rawHandler(lists(entry("a", ""))).ServeHTTP(w, r)
	})).URL))
	require.Equal(t, tool.Result{
		Output: "mcp server test: the call failed: the server requires that the user opens a web page first, which is not possible here: " +
			"Sign in to Notes", IsError: true,
	}, call(t, find(t, s, "a"), `{}`))
}

// The time after which a stream is resumed may be in an event without a message.
func TestTimeOfReconnection(t *testing.T) {
	var began, resumed atomic.Value // time.Time
	next := rawHandler(lists(entry("a", "")))
	s := newWorld(t).open(overHTTP(web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		switch {
		case r.Header.Get("Last-Event-ID") == "e1":
			resumed.Store(time.Now())
			fmt.Fprintf(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"resumed\"}]}}\n\n")
		case bytes.Contains(data, []byte(`"tools/call"`)):
			began.Store(time.Now())
			fmt.Fprint(w, "id: e1\nretry: 3000\ndata:\n\n")
		default:
			r.Body = io.NopCloser(bytes.NewReader(data))
			next.ServeHTTP(w, r)
		}
	})).URL))
	require.Equal(t, tool.Result{Output: "resumed"}, call(t, find(t, s, "a"), `{}`))
	require.GreaterOrEqual(t, resumed.Load().(time.Time).Sub(began.Load().(time.Time)), 2900*time.Millisecond, "without it, the client waits for at most 2 s")
}
