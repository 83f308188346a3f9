package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/gateway"
	"github.com/seed93082962/agenthost/hub/wire"
)

// A runtime that does not respond to cancels occupies the share of its deployment, several of them
// that of their tenant, and those of several tenants 256 connections. Other cancels are rejected
// after a few seconds, and served afterwards.
func TestCancelsAtOnce(t *testing.T) {
	var held atomic.Int64
	release := make(chan struct{})
	s, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/runs/held/cancel" {
			held.Add(1)
			<-release
		}
		w.WriteHeader(http.StatusAccepted)
	}), func(c *gateway.Config) {
		target := c.Target
		c.Tenant = ""
		c.Authorize = func(ctx context.Context, tenant, name, _ string) (gateway.Target, error) {
			x, err := target(ctx, "acme", "a")
			x.Key = tenant + "-" + name
			return x, err
		}
	})
	anyone := s.As("", "", "")
	statuses := make(chan int, 400)
	cancel := func(agent, run string) apitest.Response {
		return anyone.Do(http.MethodPost, "/runtime/"+agent+"/v1/runs/"+run+"/cancel", nil, "X-Api-Key", apiKey)
	}
	hold := func(agent string, n int) {
		for range n {
			go func() { statuses <- cancel(agent, "held").Status }()
		}
	}
	reached := func(n int64) {
		t.Helper()
		require.Eventually(t, func() bool { return held.Load() == n }, time.Minute, time.Millisecond)
	}
	hold("acme/first", 17)
	require.Equal(t, http.StatusTooManyRequests, <-statuses)
	reached(16)
	require.Equal(t, http.StatusAccepted, cancel("acme/second", "free").Status, "another deployment")
	for i := range 3 {
		hold(fmt.Sprint("acme/other-", i), 16)
	}
	reached(64)
	require.Equal(t, http.StatusTooManyRequests, cancel("acme/second", "free").Status, "a tenant has a share")
	require.Equal(t, http.StatusAccepted, cancel("globex/first", "free").Status, "another tenant")
	for i := range 12 {
		hold(fmt.Sprintf("tenant-%d/agent-%d", i/4, i), 16)
	}
	reached(256)
	r := cancel("globex/first", "free")
	r.Error(http.StatusTooManyRequests, wire.RateLimited)
	require.Equal(t, "3", r.Header.Get("Retry-After"))
	close(release)
	for range 256 {
		require.Equal(t, http.StatusAccepted, <-statuses)
	}
	require.Eventually(t, func() bool { return cancel("acme/first", "free").Status == http.StatusAccepted }, time.Minute, time.Millisecond)
}
