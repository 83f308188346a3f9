package gatewaytest

import (
	"fmt"
	"maps"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed93082962/agenthost/hub/deploy"
)

// Benchmark measures how a hub finds that 1,000 routes of a gateway have not changed, which it does
// every 10 s.
func Benchmark(b *testing.B, s *Server, g deploy.Gateway) {
	const deployments = 1000
	want := map[string]deploy.Route{}
	for i := range deployments {
		key := fmt.Sprintf("acme-bot-%d", i)
		r := deploy.Route{Key: key, Host: "localhost", Path: fmt.Sprintf("/acme/bot-%d", i), Target: "http://127.0.0.1:9", Timeout: 31 * time.Minute}
		if err := g.Put(b.Context(), owner, r); err != nil {
			b.Fatal(err)
		}

		want[key] = r
	}

	s.Writes()
	s.mu.Lock()
	s.page = deployments
	s.mu.Unlock()
	var calls atomic.Int64
	s.Fail(func(http.ResponseWriter, *http.Request) bool {
		calls.Add(1)
		return false
	})
	for b.Loop() {
		got, err := g.Routes(b.Context(), owner)
		if err != nil || !maps.Equal(want, got) {
			b.Fatal("the routes are not those that were put: ", err)
		}
	}

	if writes := s.Writes(); len(writes) > 0 {
		b.Fatal(writes)
	}

	b.ReportMetric(float64(calls.Load())/float64(b.N), "calls/op")
}
