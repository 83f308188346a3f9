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

// externalMode serves a hub of its own in external mode, with the operations interface. Its responses
// are checked against the same document.
func (c *contract) externalMode() *contract {
	c.t.Helper()
	e := &contract{doc: c.doc, later: c.later, seen: map[string]bool{}, fields: map[string]bool{}, files: c.files}
	e.site = open(c.t, dbtest.SQLite(c.t), func(cfg *hub.Config) {
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
	c := judged(t, dbtest.SQLite(t)).externalMode()
	require.Equal(t, map[string]any{"mode": "external", "setup_required": false}, c.ok(200, "GET", "/auth/mode", "", ""))
	c.refuse(404, api.NotFound, "GET", "/auth/login", "", "")
	c.refuse(404, api.NotFound, "GET", "/auth/org-check?org=acme", "", "")
	c.call("POST", "/auth/login", "", "{}").refused(404, "not_found")
	c.call("POST", "/auth/setup", "", "{}").refused(404, "not_found")

	key := []string{"X-Ops-Key", opsKey}
	client := `{"org":"acme","clientId":"hub","clientSecret":"secret","issuer":"` + discovery(t) + `"}`
	c.send("POST", tenantClients, "", client, key...).want(201)
	c.send("POST", tenantClients, "", client, key...).want(200)
	c.send("POST", tenantClients, "", strings.Replace(client, "acme", "beta", 1), key...).want(201)
	c.refuse(400, api.ValidationFailed, "POST", tenantClients, "", strings.Replace(client, "acme", "a-b", 1), key...)
	c.refuse(409, api.DefaultTenantInUse, "DELETE", tenantClients+"/acme", "", "", key...)
	c.send("DELETE", tenantClients+"/gamma", "", "", key...).want(204)
	require.EqualValues(t, 2, c.send("GET", tenantClients, "", "", key...).want(200)["total"])
	c.refuse(400, api.InvalidRequest, "GET", tenantClients+"?page=0", "", "", key...)
	c.refuse(401, api.Unauthenticated, "GET", tenantClients, "", "")

	require.Equal(t, "acme", c.ok(200, "GET", "/auth/mode", "", "")["default_org"])
	c.ok(200, "GET", "/auth/org-check", "", "")
	require.Equal(t, 302, c.send("GET", "/auth/login?return_to=/console/", "", "").status)
	c.refuse(400, api.ValidationFailed, "GET", "/auth/login?return_to=//evil.example.com", "", "")
	c.judge("GET", "/auth/callback?state=x", "", "", c.call("GET", "/auth/callback?state=x", "", ""))
	c.refuse(401, api.InvalidCredentials, "POST", "/auth/exchange", "", `{"code":"x"}`)
	c.refuse(400, api.ValidationFailed, "POST", "/auth/exchange", "", `{"code":""}`)
	c.call("POST", "/auth/backchannel-logout", "", "").refused(400, "invalid_request")
}

// Wrong keys are recorded in the log of the system, up to 60 a minute.
func TestWrongOpsKeysAreRecorded(t *testing.T) {
	c := judged(t, dbtest.SQLite(t)).externalMode()
	for range 60 {
		c.refuse(401, api.Unauthenticated, "DELETE", tenantClients+"/acme", "", "", "X-Ops-Key", "wrong")
	}
	c.refuse(429, api.RateLimited, "DELETE", tenantClients+"/acme", "", "", "X-Ops-Key", "wrong")
	c.send("DELETE", tenantClients+"/acme", "", "", "X-Ops-Key", opsKey).want(204)
	var log strings.Builder
	require.NoError(t, c.WriteAudit(t.Context(), &log, "system"))
	require.Equal(t, 60, strings.Count(log.String(), `"action":"auth.denied"`))
	require.Contains(t, log.String(), `"needs":"key"`)
}
