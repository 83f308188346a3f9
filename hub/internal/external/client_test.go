package external_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/external"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/secret"
)

func acme(more object) object {
	in := object{"org": "acme", "clientId": "c1", "clientSecret": "s1", "issuer": "https://idp.example.com"}
	maps.Copy(in, more)
	return in
}

func TestTenantClients(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		cert := publicPEM(t, rsaKey())
		first := s.ops("POST", "", acme(object{"cert": cert})).want(http.StatusCreated)
		require.NotEmpty(t, first["createdAt"])
		delete(first, "createdAt")
		delete(first, "updatedAt")
		require.Equal(t, object{
			"org": "acme", "clientId": "c1", "issuer": "https://idp.example.com", "provider": "oidc", "isDefault": true, "hasSecret": true, "hasCert": true,
		}, first)
		require.Equal(t, false, s.ops("POST", "", acme(object{"org": "beta"})).want(http.StatusCreated)["isDefault"])

		require.Equal(t, true, s.ops("POST", "", object{"org": "acme", "clientId": "c2"}).want(http.StatusOK)["hasSecret"])
		s.ops("POST", "", object{"org": "acme", "clientId": "c1"}).want(http.StatusOK)
		kept := s.ops("POST", "", object{"org": "acme", "clientId": "c1", "isDefault": false}).want(http.StatusOK)
		require.Equal(t, true, kept["isDefault"], "another one has to become the default")
		require.Equal(t, true, kept["hasCert"])
		require.Equal(t, false, s.ops("POST", "", object{"org": "acme", "clientId": "c1", "cert": ""}).want(http.StatusOK)["hasCert"])

		list := s.ops("GET", "", nil).want(http.StatusOK)
		require.EqualValues(t, 2, list["total"])
		require.Len(t, s.ops("GET", "?page=2&page_size=1", nil).want(http.StatusOK)["items"], 1)

		s.ops("DELETE", "/acme", nil).refused(http.StatusConflict, code.DefaultTenantInUse)
		require.Equal(t, true, s.ops("POST", "", object{"org": "beta", "clientId": "c1", "isDefault": true}).want(http.StatusOK)["isDefault"])
		s.ops("DELETE", "/acme", nil).want(http.StatusNoContent)
		s.ops("DELETE", "/acme", nil).want(http.StatusNoContent)
		s.ops("DELETE", "/No-Such", nil).want(http.StatusNoContent)
		s.ops("DELETE", "/beta", nil).want(http.StatusNoContent)

		log := s.log("acme")
		require.Equal(t, []string{
			`auth.upsert_tenant_client acme success {"created":true,"clientId":{"from":"","to":"c1"},"issuer":{"from":"","to":"https://idp.example.com"},` +
				`"provider":{"from":"","to":"oidc"},"isDefault":{"from":false,"to":true},"secretChanged":true,"certChanged":true}`,
			`auth.upsert_tenant_client acme success {"created":false,"clientId":{"from":"c1","to":"c2"},"secretChanged":false,"certChanged":false}`,
			`auth.upsert_tenant_client acme success {"created":false,"clientId":{"from":"c2","to":"c1"},"secretChanged":false,"certChanged":false}`,
			`auth.upsert_tenant_client acme success {"created":false,"secretChanged":false,"certChanged":true}`,
			`auth.upsert_tenant_client acme success {"created":false,"isDefault":{"from":true,"to":false},"secretChanged":false,"certChanged":false}`,
			`auth.delete_tenant_client acme success {"clientId":"c1","issuer":"https://idp.example.com","sessionsEnded":0,"tokensRevoked":0,"deploymentsEnded":0}`,
		}, log)
		require.Len(t, s.log("beta"), 3)
	})
}

func TestTenantClientFaults(t *testing.T) {
	s := onSQLite(t, nil)
	s.ops("POST", "", acme(nil)).want(http.StatusCreated)
	for name, row := range map[string]struct {
		change object
		field  string
	}{
		"no organization":       {object{"org": ""}, "org"},
		"a hyphen":              {object{"org": "a-b"}, "org"},
		"a capital":             {object{"org": "Acme"}, "org"},
		"the system":            {object{"org": "system"}, "org"},
		"no client":             {object{"clientId": ""}, "clientId"},
		"an empty secret":       {object{"clientSecret": ""}, "clientSecret"},
		"a secret of two lines": {object{"clientSecret": "a\nb"}, "clientSecret"},
		"http":                  {object{"issuer": "http://idp.example.com"}, "issuer"},
		"a query":               {object{"issuer": "https://idp.example.com/?a"}, "issuer"},
		"a user":                {object{"issuer": "https://a:b@idp.example.com"}, "issuer"},
		"no issuer":             {object{"org": "beta", "issuer": nil}, "issuer"},
		"no secret":             {object{"org": "beta", "clientSecret": nil}, "clientSecret"},
		"another kind":          {object{"provider": "saml"}, "provider"},
		"no certificate":        {object{"cert": "hello"}, "cert"},
		"a private key":         {object{"cert": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"}, "cert"},

		// The stored secret must not be sent to another server.
		"the secret for another issuer":   {object{"issuer": "https://evil.example.com", "clientSecret": nil}, "clientSecret"},
		"the secret for another provider": {object{"provider": "casdoor", "clientSecret": nil}, "clientSecret"},
	} {
		t.Run(name, func(t *testing.T) {
			fields := s.ops("POST", "", acme(row.change)).refused(http.StatusBadRequest, wire.ValidationFailed)["data"].(object)["fields"].(object)
			require.Contains(t, fields, row.field)
		})
	}
}

func TestOpsKey(t *testing.T) {
	s := onSQLite(t, nil)
	for _, method := range []string{"GET", "POST"} {
		for _, key := range []string{"", "x", opsKey + "x", strings.ToUpper(opsKey)} {
			a := newBrowser(t).send(method, s.url+"/api/v1/ops/tenant-clients", nil, "X-Ops-Key", key)
			a.refused(http.StatusUnauthorized, wire.Unauthenticated)
			require.Empty(t, a.header.Get("WWW-Authenticate"))
		}
	}
	newBrowser(t).send("DELETE", s.url+"/api/v1/ops/tenant-clients/a", nil).refused(http.StatusUnauthorized, wire.Unauthenticated)
	service, err := external.New(external.Config{Store: s.store})
	require.NoError(t, err)
	defer service.Close()
	require.Empty(t, service.Routes(), "without a key and without logins")
}

func TestSecretsAreSealedAndSealedAgain(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		cert := publicPEM(t, rsaKey())
		s.ops("POST", "", acme(object{"cert": cert, "clientSecret": "very secret"})).want(http.StatusCreated)
		columns := func() (secret, cert []byte) {
			require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT client_secret_enc, cert_enc FROM tenant_clients`).Scan(&secret, &cert))
			return secret, cert
		}
		sealed, sealedCert := columns()
		require.NotContains(t, string(sealed), "very secret")
		require.NotContains(t, string(sealedCert), "PUBLIC KEY")
		_, err := s.ring.Open(sealed, secret.AAD("tenant_clients", "client_secret_enc", "beta"))
		require.Error(t, err, "it belongs to its row")
		text, _ := s.logs.Now()
		require.NotContains(t, text, "very secret")
		require.NotContains(t, strings.Join(s.log("acme"), ""), "very secret")
		n, err := s.store.Reseal(t.Context(), external.Sealed()...)
		require.NoError(t, err)
		require.Zero(t, n)
		require.NoError(t, err)
		var raw [32]byte
		other, err := secret.New(raw[:])
		require.NoError(t, err)
		foreign, err := store.New(store.Config{DB: s.db, Keyring: other, Audit: s.audit})
		require.NoError(t, err)
		n, err = foreign.Reseal(t.Context(), external.Sealed()...)
		require.NoError(t, err, "the client can be registered again")
		require.Zero(t, n)
		kept, keptCert := columns()
		require.Equal(t, sealed, kept)
		require.Equal(t, sealedCert, keptCert)

		// One that belongs to another place does not keep those of others from being sealed.
		_, err = s.db.Write().ExecContext(t.Context(), `UPDATE tenant_clients SET issuer = 'https://other.example'`)
		require.NoError(t, err)
		_, err = s.store.Reseal(t.Context(), external.Sealed()...)
		require.NoError(t, err)
	})
}

// A changed row sends the secret to no other server. That of an earlier version is bound at the
// start.
func TestTheSecretOfAClientIsBoundToItsIssuer(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		own, other := newStandIn(s), newStandIn(s)
		s.register("acme", own)
		exec := func(query string, value any) {
			_, err := s.db.Write().ExecContext(t.Context(), query, value)
			require.NoError(t, err)
		}
		rebind := func() int {
			n, err := s.store.Rebind(t.Context(), external.Sealed()...)
			require.NoError(t, err)
			return n
		}
		newBrowser(t).enter(s.url, "acme")
		exec(`UPDATE tenant_clients SET issuer = $1`, other.URL)
		require.Zero(t, rebind())
		newBrowser(t).get(s.url+"/auth/login?org=acme").refused(http.StatusServiceUnavailable, wire.Unavailable)
		require.Zero(t, other.calls["/token"])

		exec(`UPDATE tenant_clients SET issuer = $1`, own.URL)
		newBrowser(t).enter(s.url, "acme")
		former := s.ring.Seal([]byte("secret-acme"), secret.AAD("tenant_clients", "client_secret_enc", "acme"))
		exec(`UPDATE tenant_clients SET client_secret_enc = $1`, former)
		require.Equal(t, 1, rebind())
		newBrowser(t).enter(s.url, "acme")
		require.Zero(t, rebind())
	})
}

// There is one default as long as there is an organization, whatever happens at the same time.
func TestRaceForTheDefaultOrganization(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				org := fmt.Sprint("org", i)
				s.ops("POST", "", acme(object{"org": org}))
				s.ops("POST", "", object{"org": org, "clientId": "c1", "isDefault": true})
				if i%2 == 0 {
					s.ops("DELETE", "/"+org, nil)
				}
			})
		}
		wg.Wait()
		var defaults, all int
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM tenant_clients WHERE is_default`).Scan(&defaults))
		require.NoError(t, s.db.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FROM tenant_clients`).Scan(&all))
		require.Equal(t, 1, defaults)
		require.GreaterOrEqual(t, all, 4)
	})
}
