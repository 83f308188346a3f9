package hub_test

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-jose/go-jose/v4"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

const (
	opsKey        = "an operations key of 32 characters"
	tenantClients = "/api/v1/ops/tenant-clients"
)

// externalMode serves a hub in external mode, with the operations interface. Its responses
// are checked against the same document.
func (c *contract) externalMode() *contract {
	c.t.Helper()
	e := &contract{coverage: newCoverage(), doc: c.doc, later: c.later, files: c.files}
	e.server = open(c.t, sqlite(c.t), func(cfg *hub.Config) {
		cfg.External, cfg.BootstrapAdmins, cfg.OpsKey, cfg.Artifacts, cfg.ChatPushKey = true, []string{"acme/root"}, opsKey, c.files, pushKey
	})
	e.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return e
}

// unseenExternal are responses that the walk of external mode does not cause, with the reason.
var unseenExternal = map[string]string{
	"GET /auth/login 429":          "it takes 1,200 logins: external.TestStartsAreLimited",
	"GET /auth/callback/{org} 429": "it takes 100 rejected logins: external.TestFailedLoginsOfANetwork",
	"POST /auth/exchange 429":      "as above, of a disabled user",

	"GET /auth/callback/{org} 200 must_change_password": "there are no passwords",

	"GET /auth/callback 200":                       "of the global client: external.TestGlobalClient",
	"GET /auth/callback 303":                       "of the global client",
	"GET /auth/callback 403":                       "of the global client",
	"GET /auth/callback 429":                       "of the global client",
	"GET /auth/callback 502":                       "of the global client",
	"GET /auth/callback 503":                       "of the global client",
	"POST /auth/exchange 200 must_change_password": "there are no passwords",
}

// TestResponsesOfExternalMode causes every response of the routes that only external mode and the
// operations interface have. The logins themselves are tested in package external.
func TestResponsesOfExternalMode(t *testing.T) {
	c := newContract(t, sqlite(t)).externalMode()
	p, other := newProvider(t), newProvider(t)
	other.issuer = "https://other.example.com"
	require.Equal(t, map[string]any{"mode": "external", "setup_required": false}, c.ok(200, "GET", "/auth/mode", "", ""))
	c.reject(404, wire.NotFound, "GET", "/auth/login", "", "")
	c.reject(404, wire.NotFound, "GET", "/auth/org-check?org=acme", "", "")
	c.call("POST", "/auth/login", "", "{}").wantError(404, "not_found")
	c.call("POST", "/auth/setup", "", "{}").wantError(404, "not_found")
	c.tenantClients(p.URL, other.URL)
	admin := c.externalLogins(p)
	c.reject(409, wire.Conflict, "POST", users, admin, `{"username":"bob","password":"`+password+`","role":"member"}`)
	c.reject(409, wire.Conflict, "POST", "/api/v1/admin/invites", admin, `{"role":"member"}`)
	me := c.ok(200, "GET", "/auth/userinfo", admin, "")["id"].(string)
	for _, list := range []string{users, "/api/v1/admin/audit-logs"} { // of the organization
		require.NotEmpty(t, c.ok(200, "GET", list, admin, "")["items"])
	}
	c.reject(409, wire.Conflict, "POST", users+"/"+me+"/reset-password", admin, "")

	logout := func(issuer string, claims map[string]any, headers ...string) response {
		body := url.Values{"logout_token": {p.sign(issuer, claims)}}.Encode()
		return c.send("POST", "/auth/backchannel-logout", "", body, append(headers, "Content-Type", "application/x-www-form-urlencoded")...)
	}
	event := map[string]any{"jti": "1", "sub": "root", "events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}}
	logout(p.URL, nil).wantError(400, "invalid_request")
	logout(p.URL, event, "Sec-Fetch-Site", "cross-site").wantError(403, "forbidden")
	logout(p.URL, map[string]any{"x": strings.Repeat("x", 16<<10)}).wantError(413, "payload_too_large")
	logout(other.URL, nil).wantError(502, "upstream_failed")
	logout("http://127.0.0.1:1", nil).wantError(503, "unavailable")
	require.Equal(t, 200, logout(p.URL, event).status)
	c.reject(401, wire.TokenRevoked, "GET", "/auth/userinfo", admin, "")
	c.reject(409, wire.Conflict, "POST", tenantClients, "", clientBody("acme", other.URL), "X-Ops-Key", opsKey)
	for status := 400; status != 429; {
		res := logout(p.URL, nil)
		status = res.status
		require.Contains(t, []int{400, 429}, status)
	}

	operations := c.doc.All()
	maps.DeleteFunc(operations, func(_ string, op *openapi3.Operation) bool { return op.Extensions["x-mode"] == nil })
	require.NoError(t, c.Close())
	c.reject(503, wire.Unavailable, "GET", "/auth/org-check", "", "")
	c.reject(503, wire.Unavailable, "POST", "/auth/exchange", "", `{"code":"`+someToken+`"}`, "Cookie", "hub_login="+someToken)
	c.reject(503, wire.Unavailable, "GET", tenantClients, "", "", "X-Ops-Key", opsKey)
	c.reject(503, wire.Unavailable, "POST", tenantClients, "", clientBody("acme", p.URL), "X-Ops-Key", opsKey)
	c.reject(503, wire.Unavailable, "DELETE", tenantClients+"/acme", "", "", "X-Ops-Key", opsKey)
	c.completeExcept(operations, unseenExternal)
}

// someToken has the form of the codes and cookies of logins.
var someToken = strings.Repeat("0", 64)

func clientBody(org, issuer string) string {
	return `{"org":"` + org + `","clientId":"hub","clientSecret":"secret","issuer":"` + issuer + `"}`
}

// tenantClients registers organizations: acme, bad, whose discovery document is that of another
// issuer, and down, whose provider is.
func (c *contract) tenantClients(issuer, bad string) {
	key := []string{"X-Ops-Key", opsKey}
	c.send("POST", tenantClients, "", clientBody("acme", issuer), key...).want(201)
	c.send("POST", tenantClients, "", clientBody("acme", issuer), key...).want(200)
	c.send("POST", tenantClients, "", clientBody("bad", bad), key...).want(201)
	down := strings.TrimSuffix(clientBody("down", "http://127.0.0.1:1"), "}") +
		`,"requiredClaim":{"name":"groups","values":["hub"]},"roleClaim":{"name":"groups","map":{"ops":"admin"}},"groupsClaim":"groups","logoutRevokesTokens":true}`
	c.send("POST", tenantClients, "", down, key...).want(201)
	c.send("POST", tenantClients, "", down, key...).want(200)
	c.reject(400, wire.ValidationFailed, "POST", tenantClients, "", clientBody("a-b", issuer), key...)
	c.reject(400, wire.InvalidRequest, "POST", tenantClients, "", "{", key...)
	c.reject(413, code.PayloadTooLarge, "POST", tenantClients, "", `{"org":"`+strings.Repeat("x", 1<<20)+`"}`, key...)
	c.reject(415, code.UnsupportedMedia, "POST", tenantClients, "", "{}", append(key, "Content-Type", "text/plain")...)
	c.reject(409, code.DefaultTenantInUse, "DELETE", tenantClients+"/acme", "", "", key...)
	c.send("DELETE", tenantClients+"/gamma", "", "", key...).want(204)
	require.EqualValues(c.t, 3, c.send("GET", tenantClients, "", "", key...).want(200)["total"])
	c.reject(400, wire.InvalidRequest, "GET", tenantClients+"?page=0", "", "", key...)
	for _, call := range []string{"GET " + tenantClients, "POST " + tenantClients, "DELETE " + tenantClients + "/acme"} {
		method, path, _ := strings.Cut(call, " ")
		c.reject(401, wire.Unauthenticated, method, path, "", "")
		if method != "GET" {
			c.reject(403, wire.Forbidden, method, path, "", "", "Sec-Fetch-Site", "cross-site")
		}
	}
	for range 60 {
		c.reject(401, wire.Unauthenticated, "DELETE", tenantClients+"/acme", "", "", "X-Ops-Key", "wrong")
	}
	for _, call := range []string{"GET " + tenantClients, "POST " + tenantClients, "DELETE " + tenantClients + "/acme"} {
		method, path, _ := strings.Cut(call, " ")
		c.reject(429, wire.RateLimited, method, path, "", "", "X-Ops-Key", "wrong")
	}
}

// externalLogins signs users in and returns the access token of an admin.
func (c *contract) externalLogins(p *provider) string {
	const unreadable = "org=%zz"
	require.Equal(c.t, "acme", c.ok(200, "GET", "/auth/mode", "", "")["default_org"])
	c.ok(200, "GET", "/auth/org-check", "", "")
	c.reject(400, wire.InvalidRequest, "GET", "/auth/org-check?"+unreadable, "", "")
	c.reject(400, wire.InvalidRequest, "GET", "/auth/login?"+unreadable, "", "")
	c.reject(400, wire.ValidationFailed, "GET", "/auth/login?return_to=//evil.example.com", "", "")
	c.reject(502, code.UpstreamFailed, "GET", "/auth/login?org=bad", "", "")
	c.reject(503, wire.Unavailable, "GET", "/auth/login?org=down", "", "")

	// The code is the nonce, or what the provider does.
	callback := func(query, code string) (response, string) {
		started := c.send("GET", "/auth/login?"+query, "", "")
		require.Equal(c.t, 302, started.status, started.text)
		cookie, _, _ := strings.Cut(started.header.Get("Set-Cookie"), ";")
		at, err := url.Parse(started.header.Get("Location"))
		require.NoError(c.t, err)
		back := url.Values{"state": {at.Query().Get("state")}, "code": {cmp.Or(code, at.Query().Get("nonce"))}}
		return c.send("GET", "/auth/callback/acme?"+back.Encode(), "", "", "Cookie", cookie), cookie
	}
	exchange := func(user string) response {
		p.user = user
		back, cookie := callback("return_to=/console/", "")
		require.Equal(c.t, 303, back.status, back.text)
		_, code, _ := strings.Cut(back.header.Get("Location"), "#code=")
		return c.send("POST", "/auth/exchange", "", `{"code":"`+code+`"}`, "Cookie", cookie)
	}
	c.reject(400, wire.InvalidRequest, "GET", "/auth/callback?state=x", "", "")
	c.reject(400, wire.InvalidRequest, "GET", "/auth/callback/acme?state=x", "", "")
	at := c.send("GET", "/auth/login", "", "")
	cookie, _, _ := strings.Cut(at.header.Get("Set-Cookie"), ";")
	_, state, _ := strings.Cut(at.header.Get("Location"), "state=")
	c.reject(401, code.InvalidCredentials, "GET", "/auth/callback?code=x&state="+state[:64], "", "", "Cookie", cookie)
	c.send("GET", "/auth/login?org=acme", "", "", "Sec-Fetch-Site", "cross-site")
	for code, want := range map[string]int{"refused": 401, "broken": 502, "down": 503} {
		res, _ := callback("", code)
		require.Equal(c.t, want, res.status, res.text)
	}
	admin := exchange("root").want(200)
	require.Equal(c.t, "admin", admin["user"].(map[string]any)["role"])
	token := admin["access_token"].(string)
	p.user = "ada"
	res, _ := callback("", "")
	ada := res.want(200)["user"].(map[string]any)["id"].(string)
	c.ok(200, "PATCH", users+"/"+ada, token, `{"status":"disabled"}`)
	res, _ = callback("", "")
	res.wantError(403, "account_disabled")
	exchange("ada").wantError(403, "account_disabled")
	c.reject(403, wire.Forbidden, "POST", "/auth/exchange", "", "", "Sec-Fetch-Site", "cross-site")
	c.reject(401, code.InvalidCredentials, "POST", "/auth/exchange", "", `{"code":"x"}`)
	c.reject(400, wire.ValidationFailed, "POST", "/auth/exchange", "", `{"code":""}`)
	c.unreadable("POST", "/auth/exchange", "", openapi3.Content{})
	return token
}

// provider is an identity provider without pages. Its codes are nonces.
type provider struct {
	*httptest.Server
	t      *testing.T
	issuer string // in the discovery document
	key    *ecdsa.PrivateKey
	user   string // who signs in
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p := &provider{t: t, key: key}
	p.Server = httptest.NewServer(p)
	p.issuer = p.URL
	t.Cleanup(p.Close)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body any
	status := http.StatusOK
	switch code := r.FormValue("code"); {
	case r.URL.Path == "/keys":
		body = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public()}}}
	case r.URL.Path != "/token":
		body = map[string]any{
			"issuer": p.issuer, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"},
		}
	case code == "refused":
		status, body = http.StatusBadRequest, map[string]string{"error": "invalid_grant"}
	case code == "broken":
		body = map[string]string{}
	case code == "down":
		status, body = http.StatusInternalServerError, map[string]string{}
	default:
		body = map[string]string{
			"access_token": "x", "token_type": "Bearer",
			"id_token": p.sign(p.URL, map[string]any{"sub": p.user, "preferred_username": p.user, "nonce": code}),
		}
	}
	require.NoError(p.t, api.Encode(w, status, body))
}

// sign returns a token for the hub with these claims.
func (p *provider) sign(issuer string, more map[string]any) string {
	claims := map[string]any{"iss": issuer, "aud": "hub", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
	maps.Copy(claims, more)
	payload, err := json.Marshal(claims)
	require.NoError(p.t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.key}, nil)
	require.NoError(p.t, err)
	jws, err := signer.Sign(payload)
	require.NoError(p.t, err)
	raw, err := jws.CompactSerialize()
	require.NoError(p.t, err)
	return raw
}

// Wrong keys are recorded in the log of the system, up to 60 a minute. Then they are rate limited,
// and the correct key still passes.
func TestWrongKeysAreRecorded(t *testing.T) {
	for name, row := range map[string]struct {
		method, path, body, header, key string
		status                          int
	}{
		"of the operations interface": {"DELETE", tenantClients + "/acme", "", "X-Ops-Key", opsKey, 204},
		"of pushed chats":             {"POST", pushChats, `{"org":"acme","sessions":[]}`, "X-Chat-Push-Key", pushKey, 200},
	} {
		t.Run(name, func(t *testing.T) {
			c := newContract(t, sqlite(t)).externalMode()
			for i := range 60 {
				wrong := []string{"wrong", row.key + "x", strings.ToUpper(row.key)}[i%3]
				c.reject(401, wire.Unauthenticated, row.method, row.path, "", row.body, row.header, wrong)
			}
			c.reject(429, wire.RateLimited, row.method, row.path, "", row.body, row.header, "wrong")
			c.send(row.method, row.path, "", row.body, row.header, row.key).want(row.status)
			var log strings.Builder
			require.NoError(t, c.WriteAudit(t.Context(), &log, "system", false))
			require.Equal(t, 60, strings.Count(log.String(), `"action":"`), "nothing else is recorded")
			require.Equal(t, 60, strings.Count(log.String(), `.denied"`))
			require.Equal(t, 60, strings.Count(log.String(), `"needs":"key"`))
			require.NotContains(t, log.String(), "wrong")
		})
	}
}
