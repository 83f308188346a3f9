package kubernetes_test

import (
	"fmt"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
)

// BenchmarkObserve observes each of n deployments that have not changed, as a hub does every
// second. It reports the time until a hub that starts knows them all, the memory of their objects,
// and the calls of the API server.
func BenchmarkObserve(b *testing.B) {
	for _, n := range []int{1000, 2000} { // 2000 deployments have 10,000 objects
		b.Run(fmt.Sprint(n), func(b *testing.B) { observe(b, n) })
	}
}

func observe(b *testing.B, n int) {
	cfg := kubernetes.Config{REST: &rest.Config{}, Namespace: "agents", Image: "agenthost-runtime:1"}
	lists := map[string][]any{}
	source, err := kubernetes.New(cfg)
	require.NoError(b, err)
	defer func() { require.NoError(b, source.Close()) }()
	for i := range n {
		c := deploy.Ref{Key: fmt.Sprint("acme-helper-", i), UID: "first", Owner: "database"}
		all, err := source.Objects(c, 1, request(), time.Now())
		require.NoError(b, err)
		store(lists, all, fmt.Sprint(i), map[string]any{
			"phase": "Running", "podIP": "10.244.0.1",
			"containerStatuses": []any{map[string]any{"name": "runtime", "restartCount": 0, "state": map[string]any{"running": map[string]any{}}}},
		})
	}
	var calls atomic.Int64
	s := server(b, func(w http.ResponseWriter, r *http.Request) bool {
		calls.Add(1)
		return serveLists(lists, w, r)
	})
	before := heap()
	d := open(b, s.URL, func(c *kubernetes.Config) { c.Timeout = 5 * time.Minute })
	began := time.Now()
	refs, err := d.List(b.Context(), "database")
	require.NoError(b, err)
	require.Len(b, refs, n)
	adopted, grown := time.Since(began), heap()-before
	started := calls.Load()
	for b.Loop() {
		for _, ref := range refs {
			o, err := d.Observe(b.Context(), ref)
			if err != nil || o.Runtime(1).Phase != deploy.Running {
				b.Fatal(ref, o, err)
			}
		}
	}
	b.ReportMetric(float64(adopted.Milliseconds()), "adopt-ms") // b.Loop removes earlier ones
	b.ReportMetric(float64(grown)/(1<<20), "heap-MB")
	b.ReportMetric(float64(calls.Load()-started)/float64(b.N), "calls/op")
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
