package client_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/wire"
)

// A request on a connection that the runtime resets is sent again, also after a part of its body
// was written. A run without an id is not: the runtime could have accepted it.
func TestRequestsOnResetConnections(t *testing.T) {
	var used sync.Map // addresses of connections
	var requests atomic.Int64
	c := raw(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if _, again := used.LoadOrStore(r.RemoteAddr, true); again {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.(*net.TCPConn).SetLinger(0) // a reset
				_ = conn.Close()
			}
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	})
	long := wire.RunRequest{Message: strings.Repeat("x", 8<<20), RunID: new("11111111-1111-4111-8111-111111111111")}
	for range 5 {
		_, err := c.Complete(t.Context(), "helper", long)
		require.NoError(t, err)
		_, err = c.Complete(t.Context(), "helper", wire.RunRequest{Message: "hello", RunID: long.RunID})
		require.NoError(t, err)
		_, err = c.Cancel(t.Context(), *long.RunID)
		require.NoError(t, err)
		require.NoError(t, c.DeleteSession(t.Context(), "s"))
		_, err = c.Health(t.Context())
		require.NoError(t, err)
	}
	before := requests.Load()
	_, err := c.Complete(t.Context(), "helper", wire.RunRequest{Message: long.Message})
	require.ErrorContains(t, err, "call runtime")
	require.Equal(t, before+1, requests.Load())
}
