package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/api/apitest"
	"github.com/seed93082962/agenthost/hub/internal/gateway"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/outbound"
)

// BenchmarkProxy forwards a request with a small JSON response through /runtime, and through
// only httputil.ReverseProxy with the same transport, alternately. The ratios are those of the
// times of ReverseProxy to those of the gateway, client and upstream included.
func BenchmarkProxy(b *testing.B) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"ok","agents":1,"uptimeMs":1000,"version":"v1.2.3"}`)
	}))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	require.NoError(b, err)
	d := dbtest.Open(b, dbtest.SQLite(b), apitest.Audit())
	service, err := gateway.New(gateway.Config{
		Store: apitest.NewStore(b, d, store.Config{}), Tenant: "acme",
		Target: func(context.Context, string, string) (gateway.Target, error) { return gateway.Target{}, wire.NotFound },
		Authorize: func(context.Context, string, string, string) (gateway.Target, error) {
			return gateway.Target{URL: upstream.URL, AgentID: "a"}, nil
		},
	})
	require.NoError(b, err)
	handler, err := api.New(api.Config{}, service.Routes()[0])
	require.NoError(b, err)
	ours := httptest.NewServer(handler)
	defer ours.Close()
	alone := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }, Transport: outbound.Transport()})
	defer alone.Close()
	urls := []string{ours.URL + "/runtime/a/health", alone.URL + "/health"}
	var wall, cpu [2]time.Duration
	rounds := 0
	for ; b.Loop(); rounds++ {
		for i := range urls {
			i = (i + rounds) % 2
			began, used := time.Now(), processor(b)
			for range 100 {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, urls[i], http.NoBody)
				require.NoError(b, err)
				req.Header.Set("X-Api-Key", "k")
				res, err := http.DefaultClient.Do(req)
				require.NoError(b, err)
				_, _ = io.Copy(io.Discard, res.Body)
				require.NoError(b, res.Body.Close())
			}
			wall[i] += time.Since(began)
			cpu[i] += processor(b) - used
		}
	}
	b.ReportMetric(float64(wall[0])/float64(rounds*100*1000), "gateway-us")
	b.ReportMetric(float64(wall[1])/float64(rounds*100*1000), "alone-us")
	b.ReportMetric(float64(wall[1])/float64(wall[0]), "ratio")
	b.ReportMetric(float64(cpu[1])/float64(cpu[0]), "cpu-ratio")
}

// processor returns the processor time of this process.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
