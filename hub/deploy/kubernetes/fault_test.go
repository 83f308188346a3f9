package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
)

// server is an API server without objects, in the wire format of the real one. fault responds
// in its place if it returns true.
func server(t testing.TB, fault func(w http.ResponseWriter, r *http.Request) bool) *httptest.Server {
	t.Helper()
	ended := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case fault(w, r):
		case r.URL.Query().Has("sendInitialEvents"): // as a server without the feature WatchList
			status(w, http.StatusUnprocessableEntity, "Invalid", "sendInitialEvents: Forbidden: the WatchList feature gate is disabled")
		case r.URL.Query().Get("watch") == "true":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-ended:
			}
		case r.Method == http.MethodGet:
			respond(w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}})
		default:
			respond(w, http.StatusCreated, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}})
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(ended) })
	return s
}

func respond(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

func status(w http.ResponseWriter, code int, reason, message string) {
	respond(w, code, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message})
}

func TestFaultsOfTheAPIServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		code        int
		reason      string
		message     string
		unavailable bool
		want        string
	}{
		"forbidden":     {http.StatusForbidden, "Forbidden", `deployments.apps is forbidden: User "hub" cannot list`, false, "cannot list"},
		"quota":         {http.StatusForbidden, "Forbidden", `secrets "x" is forbidden: exceeded quota: small`, false, "exceeded quota: small"},
		"unauthorized":  {http.StatusUnauthorized, "Unauthorized", "Unauthorized", false, "rejects the credentials"},
		"invalid":       {http.StatusUnprocessableEntity, "Invalid", "spec is invalid", false, "spec is invalid"},
		"internal":      {http.StatusInternalServerError, "InternalError", "etcd does not respond", true, "etcd does not respond"},
		"unavailable":   {http.StatusServiceUnavailable, "ServiceUnavailable", "shutting down", true, "shutting down"},
		"always full":   {http.StatusTooManyRequests, "TooManyRequests", "too many requests", true, "too many requests"},
		"no JSON":       {http.StatusBadGateway, "", "", true, "unavailable"},
		"long messages": {http.StatusUnprocessableEntity, "Invalid", strings.Repeat("x", 1<<20), false, "xxx"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t, func(w http.ResponseWriter, _ *http.Request) bool {
				if test.reason == "" {
					w.WriteHeader(test.code)
					return true
				}
				status(w, test.code, test.reason, test.message)
				return true
			})
			d := open(t, s.URL)
			_, failed := d.Observe(t.Context(), ref)
			for call, err := range map[string]error{"observe": failed, "apply": d.Apply(t.Context(), ref, 1, request())} {
				require.ErrorContains(t, err, test.want, call)
				require.Equal(t, test.unavailable, isUnavailable(err), "%s: %v", call, err)
				require.Less(t, len(err.Error()), 2000)
			}
		})
	}
}

func isUnavailable(err error) bool {
	return strings.Contains(err.Error(), deploy.ErrUnavailable.Error())
}

// Each call has a bound in time, whatever the API server does.
func TestServerThatHangs(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	s := server(t, func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
		return true
	})
	t.Cleanup(func() { close(ended) })
	d := open(t, s.URL, func(c *kubernetes.Config) { c.Timeout = 200 * time.Millisecond })
	_, observed := d.Observe(t.Context(), ref)
	_, listed := d.List(t.Context(), "database")
	_, logged := d.Logs(t.Context(), ref, 1, 10)
	for call, err := range map[string]error{
		"observe": observed, "list": listed, "logs": logged, "apply": d.Apply(t.Context(), ref, 1, request()),
		"keys": d.SetKeys(t.Context(), ref, nil), "stop": d.Stop(t.Context(), ref, 1, 0), "delete": d.Delete(t.Context(), ref),
	} {
		require.ErrorIs(t, err, deploy.ErrUnavailable, call)
	}
}

// An API server that is away is an ErrUnavailable, and not the state of before.
func TestServerThatIsAway(t *testing.T) {
	t.Parallel()
	none := func(http.ResponseWriter, *http.Request) bool { return false }
	s := server(t, none)
	d := open(t, s.URL)
	observe := func(unavailable bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			o, err := d.Observe(t.Context(), ref)
			return !o.Exists && (err != nil) == unavailable && (err == nil || isUnavailable(err))
		}, time.Minute, 10*time.Millisecond)
	}
	observe(false)
	require.NoError(t, s.Listener.Close())
	s.CloseClientConnections()
	observe(true)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	again := &http.Server{Handler: s.Config.Handler, ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { _ = again.Close() })
	go func() { _ = again.Serve(l) }() // until Close
	observe(false)
}

// A server with priority and fairness rejects calls for a moment.
func TestServerWithRetryAfter(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	s := server(t, func(w http.ResponseWriter, _ *http.Request) bool {
		if calls.Add(1)%2 == 0 {
			return false
		}
		w.Header().Set("Retry-After", "0")
		status(w, http.StatusTooManyRequests, "TooManyRequests", "too many requests")
		return true
	})
	require.NoError(t, open(t, s.URL).Stop(t.Context(), ref, 1, 0))
}

// Conflicts that do not end are an error, after a bounded number of attempts.
func TestConflictsWithoutAnEnd(t *testing.T) {
	t.Parallel()
	var creates atomic.Int64
	s := server(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		creates.Add(1)
		status(w, http.StatusConflict, "AlreadyExists", `deployments.apps "x" already exists`)
		return true
	})
	err := open(t, s.URL).Apply(t.Context(), ref, 1, request())
	require.ErrorContains(t, err, "already exists")
	require.EqualValues(t, 10, creates.Load())
}

// A watch whose version the server no longer has is begun again with a list.
func TestWatchThatExpires(t *testing.T) {
	t.Parallel()
	var lists, watches atomic.Int64
	s := server(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/deployments") || r.URL.Query().Has("sendInitialEvents") {
			return false
		}
		if r.URL.Query().Get("watch") != "true" {
			lists.Add(1)
			return false
		}
		if watches.Add(1) > 3 {
			return false
		}
		respond(w, http.StatusOK, map[string]any{"type": "ERROR", "object": map[string]any{
			"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": http.StatusGone, "reason": "Expired", "message": "too old resource version",
		}})
		return true
	})
	d := open(t, s.URL)
	require.Eventually(t, func() bool {
		_, err := d.Observe(t.Context(), ref)
		return err == nil && watches.Load() > 3
	}, time.Minute, 10*time.Millisecond, fmt.Sprint(lists.Load()))
}

// A driver with an owner watches only the objects of that owner, and the warnings of pods.
func TestWatchesOfAnOwner(t *testing.T) {
	t.Parallel()
	var selectors sync.Map // by resource
	s := server(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") != "true" {
			return false
		}
		selectors.Store(path.Base(r.URL.Path), r.URL.Query().Get("labelSelector")+r.URL.Query().Get("fieldSelector"))
		return false
	})
	d := open(t, s.URL)
	d.Own("database")
	_, err := d.Observe(t.Context(), ref)
	require.NoError(t, err)
	seen := 0
	for resource, selector := range selectors.Range {
		seen++
		want := "app.kubernetes.io/managed-by=agenthost,agenthost.dev/key,agenthost.dev/owner=3549b0028b75d981"
		if resource == "events" {
			want = "involvedObject.kind=Pod,type=Warning"
		}
		require.Equal(t, want, selector, resource)
	}
	require.Equal(t, 7, seen)
}
