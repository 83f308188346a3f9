package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/gateway"
)

// A runtime that does not respond to cancels occupies the share of its deployment, and several of
// them 64 connections. Other cancels are rejected after a few seconds, and served afterwards.
func TestCancelsAtOnce(t *testing.T) {
	var held, most atomic.Int64
	release := make(chan struct{})
	s, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/runs/held/cancel" {
			n := held.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				continue
			}
			<-release
		}
		w.WriteHeader(http.StatusAccepted)
	}), func(c *gateway.Config) {
		target := c.Target
		c.Authorize = func(ctx context.Context, tenant, name, _ string) (gateway.Target, error) {
			x, err := target(ctx, tenant, "a")
			x.Key = name
			return x, err
		}
	})
	anyone := s.As("", "", "")
	statuses := make(chan int, 100)
	cancel := func(agent, run string) int {
		return anyone.Do(http.MethodPost, "/runtime/"+agent+"/v1/runs/"+run+"/cancel", nil, "X-Api-Key", apiKey).Status
	}
	for range 17 {
		go func() { statuses <- cancel("first", "held") }()
	}
	require.Equal(t, http.StatusTooManyRequests, <-statuses)
	require.Equal(t, int64(16), held.Load())
	require.Equal(t, http.StatusAccepted, cancel("second", "free"), "another deployment")
	for i := range 49 {
		go func() { statuses <- cancel(fmt.Sprint("other-", i%4), "held") }()
	}
	require.Equal(t, http.StatusTooManyRequests, <-statuses)
	require.Equal(t, int64(64), most.Load())
	r := anyone.Do(http.MethodPost, "/runtime/second/v1/runs/free/cancel", nil, "X-Api-Key", apiKey)
	r.Error(http.StatusTooManyRequests, api.RateLimited)
	require.Equal(t, "3", r.Header.Get("Retry-After"))
	close(release)
	for range 64 {
		require.Equal(t, http.StatusAccepted, <-statuses)
	}
	require.Eventually(t, func() bool { return cancel("second", "free") == http.StatusAccepted }, time.Minute, time.Millisecond)
}
