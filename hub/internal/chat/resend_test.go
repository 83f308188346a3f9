package chat_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
)

// Equal messages through two hubs are one message: each of the others has the stored messages,
// although no part of the answer is stored yet.
func TestEqualMessagesThroughTwoHubs(t *testing.T) {
	t.Parallel()
	url := postgres(t)
	late := func(c *config) { c.Relay.SaveEvery = time.Hour }
	a, b := open(t, url, late), open(t, url, late)
	a.deploy(hanging(t))
	b.endpoint.Store(a.endpoint.Load())
	path := session(a.ada())
	in := object{"message": "hello", "clientMessageId": "c"}
	answer := send(t, a.ada(), path, in)
	answer.until("partial_message")
	var all sync.WaitGroup
	for i := range 12 {
		c := []*server{a, b, b}[i%3].ada()
		all.Go(func() {
			res := c.Post(path+"/messages", in)
			if res.Status != http.StatusOK || !strings.Contains(res.Text, `"userMessage"`) {
				t.Error(res.Status, res.Text)
			}
		})
	}
	all.Wait()
	answer.cancel()
}

// forward forwards a request. The proxy fails if it still reads a body when the response begins.
func forward(proxy http.Handler, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	proxy.ServeHTTP(w, r)
}

// A run is sent again if the runtime has closed the connection that was used before.
func TestAConnectionThatTheRuntimeHasClosed(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		target, err := url.Parse(s.endpoint.Load().URL)
		require.NoError(t, err)
		proxy := httputil.NewSingleHostReverseProxy(target)
		var runs atomic.Int64
		used := map[string]bool{} // connections
		var mu sync.Mutex
		s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			again := used[r.RemoteAddr]
			used[r.RemoteAddr] = true
			mu.Unlock()
			if again {
				runs.Add(1)
				panic(http.ErrAbortHandler)
			}
			forward(proxy, w, r)
		}))
		for range 20 {
			answer := say(t, s.ada(), session(s.ada()), "hello")
			require.Equal(t, "completed", last(answer), answer)
		}
		require.NotZero(t, runs.Load())
	})
}

// A run whose connection was lost counts its reserve, since the runtime may have accepted it: also
// if it is sent again, and the runtime has it already or is gone.
func TestARunThatIsSentAgainCounts(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"the runtime has the run": false, "the runtime is gone": true} {
		t.Run(name, func(t *testing.T) {
			each(t, nil, func(t *testing.T, s *server) {
				target, err := url.Parse(s.endpoint.Load().URL)
				require.NoError(t, err)
				proxy := httputil.NewSingleHostReverseProxy(target)
				var losing atomic.Bool
				var requests atomic.Int64
				var runtime *httptest.Server
				runtime = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case !losing.Load():
						forward(proxy, w, r)
					case requests.Add(1) == 1:
						if gone {
							_ = runtime.Listener.Close()
						}
						panic(http.ErrAbortHandler)
					default:
						w.Header().Set("Content-Type", "application/json")
						w.WriteHeader(http.StatusConflict)
						_, _ = io.WriteString(w, `{"error":"Run ID conflict","runId":"r"}`)
					}
				}))
				t.Cleanup(runtime.Close)
				endpoint := *s.endpoint.Load()
				endpoint.URL = runtime.URL
				s.endpoint.Store(&endpoint)
				s.limit(usage.OfAgent, "helper", wire.BudgetRequest{Hard: new(10_000.0), Reserve: new(1000.0)})
				require.Equal(t, "completed", last(say(t, s.ada(), session(s.ada()), "hello")))
				before := s.counted("agent")[0]
				losing.Store(true)
				path := session(s.ada())
				res := s.ada().Post(path+"/messages", object{"message": "hello"})
				require.Equal(t, map[bool]int{true: http.StatusBadGateway, false: http.StatusOK}[gone], res.Status, res.Text)
				require.Equal(t, "failed", messages(s.ada(), path)[1]["status"])
				require.Positive(t, requests.Load())
				after := s.counted("agent")[0]
				require.Equal(t, []any{2.0, 1.0}, []any{after["runs"], after["estimates"]})
				require.Equal(t, 1000.0, after["inputTokens"].(float64)-before["inputTokens"].(float64))
			})
		})
	}
}
