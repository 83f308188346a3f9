package external_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/external"
	"github.com/seed93082962/agenthost/hub/wire"
)

// loginOnce signs in by the service, without HTTP between it and the browser. It returns the time
// of the callback without that of the provider.
func loginOnce(b *testing.B, s *site, client *http.Client, n int64, spent *atomic.Int64) time.Duration {
	from := api.Caller{RemoteIP: fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255)}
	location, browser, err := s.service.StartLogin(b.Context(), from, external.LoginInput{Org: "acme"})
	require.NoError(b, err)
	res, err := client.Get(location)
	require.NoError(b, err)
	require.NoError(b, res.Body.Close())
	back, err := url.Parse(res.Header.Get("Location"))
	require.NoError(b, err)
	q := back.Query()
	began, before := time.Now(), spent.Load()
	_, err = s.service.Callback(b.Context(), from, external.CallbackInput{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Browser: browser})
	require.NoError(b, err)
	return time.Since(began) - time.Duration(spent.Load()-before)
}

func benchSite(b *testing.B) (s *site, client *http.Client, spent *atomic.Int64) {
	s, spent = onSQLite(b, nil), new(atomic.Int64)
	p := newStandIn(s)
	p.with(func() { p.key = ecKey(b) })
	serve := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		serve.ServeHTTP(w, r)
		if r.URL.Path == "/token" {
			spent.Add(int64(time.Since(began)))
		}
	})
	var users atomic.Int64
	p.with(func() { p.onToken = func(c object) { c["sub"] = fmt.Sprint(users.Add(1) % 1000) } })
	s.register("acme", p)
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	b.Cleanup(transport.CloseIdleConnections)
	return s, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, spent
}

func BenchmarkCallback(b *testing.B) {
	s, client, spent := benchSite(b)
	var own time.Duration
	for n := int64(0); b.Loop(); n++ {
		own += loginOnce(b, s, client, n, spent)
	}
	b.ReportMetric(own.Seconds()*1000/float64(b.N), "ms/callback")
}

// The provider and its signatures run on the same machine.
func BenchmarkLogins(b *testing.B) {
	s, client, spent := benchSite(b)
	var n atomic.Int64
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			loginOnce(b, s, client, n.Add(1), spent)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "logins/s")
}

// BenchmarkOrganizations reports the memory of 1,000 providers with their keys.
func BenchmarkOrganizations(b *testing.B) {
	const organizations = 1000
	server := httptest.NewServer(nil)
	defer server.Close()
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/keys") {
			reply(w, 200, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: rsaKey().Public(), KeyID: "1"}, {Key: rsaKey().Public(), KeyID: "2"}}})
			return
		}
		issuer := server.URL + "/" + strings.Split(r.URL.Path, "/")[1]
		reply(w, 200, object{"issuer": issuer, "authorization_endpoint": issuer + "/a", "token_endpoint": issuer + "/t", "jwks_uri": issuer + "/keys"})
	})
	for b.Loop() {
		s := onSQLite(b, nil)
		for i := range organizations {
			secret, issuer := "x", fmt.Sprint(server.URL, "/i", i)
			_, _, err := s.service.UpsertClient(b.Context(), api.Caller{}, wire.TenantClientRequest{Org: fmt.Sprint("o", i), ClientID: "c", ClientSecret: &secret, Issuer: &issuer})
			require.NoError(b, err)
		}
		before := heap()
		for i := range organizations {
			_, _, err := s.service.StartLogin(b.Context(), api.Caller{RemoteIP: fmt.Sprint("10.0.0.", i%250)}, external.LoginInput{Org: fmt.Sprint("o", i)})
			require.NoError(b, err)
			raw := signed(b, ecKey(b), "9", nil, object{"iss": fmt.Sprint(server.URL, "/i", i), "aud": "c"})
			require.ErrorIs(b, s.service.BackchannelLogout(b.Context(), api.Caller{}, raw), wire.InvalidRequest)
		}
		b.ReportMetric(float64(heap()-before)/organizations, "B/organization")
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
