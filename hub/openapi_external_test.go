package hub_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db/dbtest"
)

const (
	opsKey        = "an operations key of 32 characters"
	tenantClients = "/api/v1/ops/tenant-clients"
)

// externalMode serves a hub in external mode, with the operations interface. Its responses
// are checked against the same document.
func (c *contract) externalMode() *contract {
	c.t.Helper()
	e := &contract{doc: c.doc, later: c.later, seen: map[string]bool{}, fields: map[string]bool{}, files: c.files}
	e.server = open(c.t, dbtest.SQLite(c.t), func(cfg *hub.Config) {
		cfg.External, cfg.OpsKey, cfg.Artifacts, cfg.ChatPushKey = true, opsKey, c.files, pushKey
	})
	e.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return e
}

// discovery serves the discovery document of an identity provider without users.
func discovery(t *testing.T) string {
	t.Helper()
	var issuer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = api.Encode(w, http.StatusOK, map[string]string{
			"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token", "jwks_uri": issuer + "/keys",
		})
	}))
	t.Cleanup(server.Close)
	issuer = server.URL
	return issuer
}

// The logins themselves are tested in package external, with an identity provider.
func TestAnswersOfExternalMode(t *testing.T) {
	c := newContract(t, dbtest.SQLite(t)).externalMode()
	require.Equal(t, map[string]any{"mode": "external", "setup_required": false}, c.ok(200, "GET", "/auth/mode", "", ""))
	c.reject(404, api.NotFound, "GET", "/auth/login", "", "")
	c.reject(404, api.NotFound, "GET", "/auth/org-check?org=acme", "", "")
	c.call("POST", "/auth/login", "", "{}").wantError(404, "not_found")
	c.call("POST", "/auth/setup", "", "{}").wantError(404, "not_found")

	key := []string{"X-Ops-Key", opsKey}
	client := `{"org":"acme","clientId":"hub","clientSecret":"secret","issuer":"` + discovery(t) + `"}`
	c.send("POST", tenantClients, "", client, key...).want(201)
	c.send("POST", tenantClients, "", client, key...).want(200)
	c.send("POST", tenantClients, "", strings.Replace(client, "acme", "beta", 1), key...).want(201)
	c.reject(400, api.ValidationFailed, "POST", tenantClients, "", strings.Replace(client, "acme", "a-b", 1), key...)
	c.reject(409, api.DefaultTenantInUse, "DELETE", tenantClients+"/acme", "", "", key...)
	c.send("DELETE", tenantClients+"/gamma", "", "", key...).want(204)
	require.EqualValues(t, 2, c.send("GET", tenantClients, "", "", key...).want(200)["total"])
	c.reject(400, api.InvalidRequest, "GET", tenantClients+"?page=0", "", "", key...)
	c.reject(401, api.Unauthenticated, "GET", tenantClients, "", "")

	require.Equal(t, "acme", c.ok(200, "GET", "/auth/mode", "", "")["default_org"])
	c.ok(200, "GET", "/auth/org-check", "", "")
	require.Equal(t, 302, c.send("GET", "/auth/login?return_to=/console/", "", "").status)
	c.reject(400, api.ValidationFailed, "GET", "/auth/login?return_to=//evil.example.com", "", "")
	c.check("GET", "/auth/callback?state=x", "", "", c.call("GET", "/auth/callback?state=x", "", ""))
	c.reject(401, api.InvalidCredentials, "POST", "/auth/exchange", "", `{"code":"x"}`)
	c.reject(400, api.ValidationFailed, "POST", "/auth/exchange", "", `{"code":""}`)
	c.call("POST", "/auth/backchannel-logout", "", "").wantError(400, "invalid_request")
}

// Wrong keys are recorded in the log of the system, up to 60 a minute.
func TestWrongOpsKeysAreRecorded(t *testing.T) {
	c := newContract(t, dbtest.SQLite(t)).externalMode()
	for range 60 {
		c.reject(401, api.Unauthenticated, "DELETE", tenantClients+"/acme", "", "", "X-Ops-Key", "wrong")
	}
	c.reject(429, api.RateLimited, "DELETE", tenantClients+"/acme", "", "", "X-Ops-Key", "wrong")
	c.send("DELETE", tenantClients+"/acme", "", "", "X-Ops-Key", opsKey).want(204)
	var log strings.Builder
	require.NoError(t, c.WriteAudit(t.Context(), &log, "system"))
	require.Equal(t, 60, strings.Count(log.String(), `"action":"auth.denied"`))
	require.Contains(t, log.String(), `"needs":"key"`)
}
