package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/api/apitest"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
	"github.com/seed93082962/agenthost/hub/gateway"
	"github.com/seed93082962/agenthost/internal/outbound"
)

// BenchmarkProxy forwards a request with a small JSON response through /runtime, and through
// httputil.ReverseProxy alone with the same transport, from as many connections as there are cores.
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
		Audit: apitest.NewAudit(b, d), Tenant: "acme",
		Target: func(context.Context, string, string) (gateway.Target, error) {
			return gateway.Target{URL: upstream.URL, AgentID: "a"}, nil
		},
	})
	require.NoError(b, err)
	handler, err := api.New(api.Config{}, service.Routes()[0])
	require.NoError(b, err)
	b.Run("gateway", func(b *testing.B) { load(b, handler, "/runtime/a/health") })
	b.Run("ReverseProxy alone", func(b *testing.B) {
		load(b, &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }, Transport: outbound.Transport()}, "/health")
	})
}

func load(b *testing.B, handler http.Handler, path string) {
	server := httptest.NewServer(handler)
	defer server.Close()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			res, err := server.Client().Get(server.URL + path)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	})
}
