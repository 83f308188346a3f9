package chat_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
			// The proxy fails if it still reads a body when the response begins.
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			proxy.ServeHTTP(w, r)
		}))
		for range 20 {
			answer := say(t, s.ada(), session(s.ada()), "hello")
			require.Equal(t, "completed", last(answer), answer)
		}
		require.NotZero(t, runs.Load())
	})
}
