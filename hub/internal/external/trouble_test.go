package external_test

import (
	"bytes"
	"crypto/rsa"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/external"
	"github.com/seed93082962/agenthost/hub/wire"
)

// A provider that is down fails its own logins with 503. The hub works otherwise.
func TestProviderIsDown(t *testing.T) {
	s := onSQLite(t, nil)
	up, down := newStandIn(s), newStandIn(s)
	s.register("acme", up)
	s.register("beta", down)
	b := newBrowser(t)
	back := b.get(b.start(s.url, "org=beta").String()).location().String()
	down.Close()
	a := b.get(back)
	a.refused(http.StatusServiceUnavailable, wire.Unavailable)
	require.Equal(t, "5", a.header.Get("Retry-After"))
	s.wait(2 * time.Hour) // what is remembered of it is too old
	a = b.get(s.url + "/auth/login?org=beta")
	a.refused(http.StatusServiceUnavailable, wire.Unavailable)
	require.Equal(t, "5", a.header.Get("Retry-After"))
	newBrowser(t).enter(s.url, "acme")
	require.Empty(t, s.log("system"), "it is no fault of the user")
}

// Logins that wait for a slow provider are bounded, and do not affect those of others.
func TestProviderIsSlow(t *testing.T) {
	s := onSQLite(t, nil)
	slow, fast := newStandIn(s), newStandIn(s)
	s.register("acme", slow)
	s.register("beta", fast)
	wait := make(chan struct{})
	slow.with(func() { slow.onDiscover = func(object) { <-wait } })
	var wg sync.WaitGroup
	refused := make(chan struct{}, 200)
	for range 80 {
		wg.Go(func() {
			if newBrowser(t).get(s.url+"/auth/login?org=acme").status == http.StatusServiceUnavailable {
				refused <- struct{}{}
			}
		})
	}
	for range 16 { // of 80, 64 wait
		<-refused
	}
	newBrowser(t).enter(s.url, "beta")
	close(wait)
	wg.Wait()
}

func TestUnusableProviders(t *testing.T) {
	for name, row := range map[string]struct {
		change func(p *standIn)
		status int
		code   wire.Code
	}{
		"another issuer": {func(p *standIn) { p.onDiscover = func(d object) { d["issuer"] = "https://evil.example.com" } }, 502, code.UpstreamFailed},
		"no issuer":      {func(p *standIn) { p.onDiscover = func(d object) { clear(d); d["status"] = "error" } }, 502, code.UpstreamFailed},
		"http":           {func(p *standIn) { p.onDiscover = func(d object) { d["token_endpoint"] = "http://192.0.2.1/token" } }, 502, code.UpstreamFailed},
		"http userinfo":  {func(p *standIn) { p.onDiscover = func(d object) { d["userinfo_endpoint"] = "http://192.0.2.1/me" } }, 502, code.UpstreamFailed},
		"a long issuer":  {func(p *standIn) { p.onDiscover = func(d object) { d["issuer"] = strings.Repeat("x", 1<<19) } }, 502, code.UpstreamFailed},
		"a file":         {func(p *standIn) { p.onDiscover = func(d object) { d["jwks_uri"] = "file:///etc/passwd" } }, 502, code.UpstreamFailed},
		"10 MB of keys": {func(p *standIn) {
			p.onKeys = func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`{"keys":["`))
				for range 10 {
					_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20))
				}
				_, _ = w.Write([]byte(`"]}`))
			}
		}, 503, wire.Unavailable},
		"no keys": {func(p *standIn) {
			p.onKeys = func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, object{"status": "error"}) }
		}, 503, wire.Unavailable},
		"a key of 16385 bits": {func(p *standIn) {
			key := jose.JSONWebKey{Key: &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 16384, 1), E: 65537}, KeyID: "1"}
			p.onKeys = func(w http.ResponseWriter, _ *http.Request) {
				reply(w, 200, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key}})
			}
		}, 503, wire.Unavailable},
		"keys elsewhere": {func(p *standIn) {
			p.onKeys = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/userinfo", http.StatusFound) }
		}, 503, wire.Unavailable},
		"an error of its own": {func(p *standIn) {
			p.onResponse = func(w http.ResponseWriter, _ string) bool {
				reply(w, 500, object{"error": "server_error"})
				return true
			}
		}, 503, wire.Unavailable},
		"the token endpoint redirects": {func(p *standIn) {
			p.onResponse = func(w http.ResponseWriter, _ string) bool {
				w.Header().Set("Location", "https://evil.example.com")
				w.WriteHeader(http.StatusTemporaryRedirect)
				return true
			}
		}, 502, code.UpstreamFailed},
		"a page instead of JSON": {func(p *standIn) {
			p.onResponse = func(w http.ResponseWriter, _ string) bool { _, _ = w.Write([]byte("<html>")); return true }
		}, 502, code.UpstreamFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := onSQLite(t, nil)
			p := newStandIn(s)
			s.register("acme", p)
			p.with(func() { row.change(p) })
			b := newBrowser(t)
			a := b.get(s.url + "/auth/login")
			if a.status == http.StatusFound {
				a = b.get(b.get(a.header.Get("Location")).location().String())
			}
			a.refused(row.status, row.code)
			text, _ := s.logs.Now()
			require.NotContains(t, text, "secret-acme")
			require.NotContains(t, text, "opaque-")
			require.Less(t, len(text), 1<<16)
		})
	}
}

// Only a provider on this machine may name endpoints on it that have no TLS.
func TestEndpoints(t *testing.T) {
	for _, endpoint := range []string{"https://idp.example.com/keys", "http://127.0.0.1:8080/keys", "http://localhost/keys"} {
		require.True(t, external.IsEndpoint(endpoint, "http://127.0.0.1:9000"), endpoint)
		require.Equal(t, strings.HasPrefix(endpoint, "https:"), external.IsEndpoint(endpoint, "https://idp.example.com"), endpoint)
	}
	for _, endpoint := range []string{"", "/keys", "https:///keys", "http://192.0.2.1/keys", "file:///etc/passwd", "javascript:alert(1)"} {
		require.False(t, external.IsEndpoint(endpoint, "http://127.0.0.1:9000"), endpoint)
	}
}

// A provider whose issuer changes is not believed once the former document is too old.
func TestIssuerChangesInDiscovery(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	s.register("acme", p)
	newBrowser(t).enter(s.url, "acme")
	p.with(func() { p.onDiscover = func(d object) { d["issuer"] = "https://evil.example.com" } })
	newBrowser(t).enter(s.url, "acme")
	s.wait(time.Hour + time.Second)
	newBrowser(t).get(s.url+"/auth/login").refused(http.StatusBadGateway, code.UpstreamFailed)
}

func TestRedirectURI(t *testing.T) {
	s := onSQLite(t, nil)
	s.register("acme", newStandIn(s))
	at := newBrowser(t).start(s.url, "").Query()
	require.Equal(t, s.url+"/auth/callback/acme", at.Get("redirect_uri"))
	require.Equal(t, "openid profile email", at.Get("scope"))
}
