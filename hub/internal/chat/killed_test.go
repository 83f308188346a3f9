package chat_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/deployment"
)

// cancels deploys a runtime that accepts each run, and returns the ids of the runs that it is to
// cancel.
func (s *server) cancels() (ids func() []string) {
	s.t.Helper()
	var mu sync.Mutex
	var all []string
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, ok := strings.CutSuffix(r.URL.Path, "/cancel"); ok {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, path[strings.LastIndexByte(path, '/')+1:])
			http.NotFound(w, r)
			return
		}
		hostile(func(write func(string) bool, _ <-chan struct{}) { write(success) })(w, r)
	}))
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// The run of a hub that was killed is cancelled in its runtime, which perhaps still executes it: by
// a request, by the next message of the session, or when the lease of the hub has passed.
func TestRunsOfAKilledHubAreCancelled(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		every time.Duration
		end   func(s *server, path string)
	}{
		"by a request":        {time.Hour, func(s *server, path string) { s.ada().Post(path+"/cancel", nil).Want(http.StatusAccepted) }},
		"by the next message": {time.Hour, func(s *server, path string) { require.Equal(s.t, "completed", last(say(s.t, s.ada(), path, "hello"))) }},
		"by the sweep":        {10 * time.Millisecond, func(*server, string) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, sqlite(t), func(c *config) { c.Relay.SaveEvery = row.every })
			ids := s.cancels()
			ada := s.ada()
			path := session(ada)
			require.Equal(t, "completed", last(say(t, ada, session(ada), "hello")))
			require.Empty(t, ids(), "no run that has ended is cancelled")
			s.orphan(path, "killed")
			row.end(s, path)
			require.Eventually(t, func() bool { return len(ids()) == 1 }, patience, 10*time.Millisecond)
			require.Equal(t, path[len(sessions)+1:], ids()[0])
			require.Zero(t, s.number(`SELECT COUNT(*) FROM chat_runs`))
		})
	}
}

// A hub that has ended holds no connections to runtimes.
func TestConnectionsEndWithTheHub(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	var mu sync.Mutex
	open, all := map[net.Conn]bool{}, 0
	runtime := httptest.NewUnstartedServer(hostile(func(write func(string) bool, _ <-chan struct{}) { write(success) }))
	runtime.Config.ConnState = func(c net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch state {
		case http.StateNew:
			open[c] = true
			all++
		case http.StateClosed:
			delete(open, c)
		}
	}
	runtime.Start()
	t.Cleanup(runtime.Close)
	s.endpoint.Store(&deployment.Endpoint{URL: runtime.URL, AgentID: "helper"})
	connections := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(open)
	}
	for range 3 {
		say(t, s.ada(), session(s.ada()), "hello")
	}
	require.Equal(t, 1, connections())
	mu.Lock()
	require.Equal(t, 1, all, "it is reused")
	mu.Unlock()
	s.service.Shutdown(context.WithoutCancel(t.Context()))
	require.Equal(t, 1, connections())
	require.NoError(t, s.service.Close())
	require.Eventually(t, func() bool { return connections() == 0 }, patience, 10*time.Millisecond)
}
