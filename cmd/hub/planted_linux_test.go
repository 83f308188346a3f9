package main_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

// Places of secrets.
const (
	inResponses   = "responses"
	inLog         = "log"
	inAudit       = "audit log"
	inDatabase    = "database"
	inFiles       = "data directory"
	inDeployments = "directory of deployments"
	inRuntimes    = "environment of runtimes"
)

// The hub is used with all of its secrets, on either engine. No secret is in a response, except
// that which issues it, in the log, the audit log, the database or the data directory. A deployment
// has only its own secrets.
func TestSecretsAreNotDisclosed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, url string) {
		s := planted{}
		bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // it rejects all credentials
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "<Error><Code>InvalidToken</Code><Message>The token is not valid.</Message></Error>")
		}))
		t.Cleanup(bucket.Close)
		p := openProduct(t, "DATABASE_URL", url,
			"CHAT_PUSH_API_KEY", s.add("push key", "planted-push-key-of-32-characters"),
			"OPS_API_KEY", s.add("ops key", "planted-ops-key-of-32-characters!"),
			"BLOB_URL", "s3://bucket/x?region=r&endpoint="+bucket.URL, "AWS_ACCESS_KEY_ID", "planted",
			"AWS_SECRET_ACCESS_KEY", s.add("S3 key", "planted-s3-key"), "AWS_SESSION_TOKEN", s.add("S3 session", "planted-s3-session"))
		v := &vault{product: p, planted: s, url: url}
		v.signIn()
		v.configure()
		v.deployed()
		v.stop()
		v.external()
		v.stop()

		audit := ""
		for _, tenant := range []string{"default", "system"} {
			text, err := once(t, p.env, "audit", "--tenant", tenant)
			require.NoError(t, err)
			audit += text
		}
		for _, action := range []string{
			"auth.setup", "auth.login", "auth.external_login", "provider.create", "provider.reveal_key", "agent.create", "agent.deploy", "agent.stop",
		} {
			require.Contains(t, audit, `"action":"`+action+`"`)
		}
		s.addSealed(t, url, v.encryptionKey())
		s.check(t, inResponses, p.seen.String(), "planted-chat-text")
		s.check(t, inLog, v.log.String(), "/auth/login")
		s.check(t, inAudit, audit, "auth.login_failed")
		s.check(t, inDatabase, databaseContent(t, url), "planted-chat-text")
		s.check(t, inFiles, files(t, p.data, filepath.Join(p.data, "deployments")), "-") // of the id of the directory
	})
}

// vault is a product whose secrets are planted.
type vault struct {
	*product
	planted
	url string // of the database
	log strings.Builder
}

func (v *vault) encryptionKey() string { return daemontest.Getenv(v.env)("PROVIDER_ENCRYPTION_KEY") }

// issue sends a request whose response has new secrets, by their fields.
func (v *vault) issue(status int, method, path, body string, fields ...string) response {
	v.t.Helper()
	res := call(v.t, method, v.URL+path, v.token, body)
	require.Equal(v.t, status, res.status, "%s %s: %s", method, path, res.text)
	for _, field := range fields {
		v.add(fmt.Sprint(field, " ", len(v.planted)), res.string(v.t, field))
	}
	return res
}

// withKey sends a request with a key in a header.
func (v *vault) withKey(status int, path, header, key, body string) {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.URL+path, strings.NewReader(body))
	require.NoError(v.t, err)
	req.Header = http.Header{header: {key}, "Content-Type": {"application/json"}}
	res := do(v.t, req)
	require.Equal(v.t, status, res.status, res.text)
	fmt.Fprintln(&v.seen, res.header, res.text)
}

// signIn uses the secrets of users.
func (v *vault) signIn() {
	v.add("setup token", printedToken.FindStringSubmatch(v.Stdout.String())[1])
	v.add("first access token", v.token)
	const first, second, wrong = "planted first password", "planted second password", "planted wrong password"
	for _, text := range []string{password, first, second, wrong} {
		v.add(text, text)
	}
	tokens := []string{"access_token", "refresh_token"}
	login := func(status int, name, password string, fields ...string) response {
		return v.issue(status, "POST", "/auth/login", `{"username":"`+name+`","password":"`+password+`"}`, fields...)
	}
	login(401, "admin", wrong)
	in := login(200, "admin", password, tokens...)
	again := `{"refresh_token":"` + in.string(v.t, "refresh_token") + `"}`
	v.token = v.issue(200, "POST", "/auth/refresh", again, tokens...).string(v.t, "access_token")
	v.send(401, "POST", "/auth/refresh", again)
	v.send(200, "GET", "/auth/sessions", "")

	invite := v.issue(201, "POST", "/api/v1/admin/invites", `{"role":"member"}`, "token").string(v.t, "token")
	v.send(200, "GET", "/auth/invite/"+invite+"?token="+invite, "")
	mia := v.issue(201, "POST", "/auth/register", `{"token":"`+invite+`","username":"mia","password":"`+first+`"}`, tokens...)
	v.send(404, "GET", "/auth/invite/"+invite, "")
	v.send(200, "GET", "/api/v1/admin/invites", "")
	id := mia.body["user"].(map[string]any)["id"].(string)
	reset := v.issue(200, "POST", "/api/v1/admin/users/"+id+"/reset-password", "", "password").string(v.t, "password")
	admin := v.token
	v.token = login(200, "mia", reset, tokens...).string(v.t, "access_token")
	v.send(204, "POST", "/auth/change-password", `{"old_password":"`+reset+`","new_password":"`+second+`"}`)
	v.token = admin
	v.token = v.issue(201, "POST", "/api/v1/cli/issue-token", `{"name":"ci"}`, "token").string(v.t, "token")
	v.send(200, "GET", "/auth/userinfo", "")
	v.token = admin
	v.send(200, "GET", "/api/v1/cli/tokens", "")
}

// configure uses the secrets of the configuration.
func (v *vault) configure() {
	v.add("provider key", "planted-provider-key", inDeployments)
	v.add("MCP value", "planted-mcp-value", inDeployments)
	v.add("encryption key", v.encryptionKey())
	raw, err := base64.StdEncoding.DecodeString(v.encryptionKey())
	require.NoError(v.t, err)
	v.add("raw encryption key", string(raw))

	saved := v.send(201, "POST", "/api/v1/admin/providers",
		`{"name":"Planted","protocol":"openai","baseUrl":"http://127.0.0.1:9","apiKey":"planted-provider-key"}`).string(v.t, "id")
	v.send(200, "POST", "/api/v1/admin/providers/"+saved+"/probe", "")
	require.Equal(v.t, "planted-provider-key", v.issue(200, "POST", "/api/v1/admin/providers/"+saved+"/reveal-key", "").body["apiKey"])
	v.send(201, "POST", "/api/v1/admin/mcps", `{"name":"planted","transport":"stdio","command":"/bin/false","env":{"TOKEN":"planted-mcp-value"}}`)
	v.send(201, "POST", adminAgents, `{"name":"keyed","providerId":"`+saved+`","model":"m","mcps":["planted"]}`)
	v.send(201, "POST", adminAgents, `{"name":"guide","providerId":"demo","model":"demo"}`)
	for _, path := range []string{"/api/v1/admin/providers", "/api/v1/providers", adminAgents, "/api/v1/admin/mcps", "/api/v1/admin/mcps/planted",
		adminAgents + "/keyed/export", "/api/v1/agents/manifest"} {
		v.send(200, "GET", path, "")
	}
	v.send(503, "POST", "/api/v1/admin/tools", upload("forecast.ts", forecast)) // the bucket rejects it
	v.send(200, "PUT", "/api/v1/admin/aigc/config",
		`{"enabled":true,"companyName":"Example","contentProducer":"00119144030071526726XG10000","signing":{"enabled":true}}`)
	v.send(200, "POST", "/api/v1/admin/aigc/config/rotate-key", "")
	v.send(200, "GET", "/api/v1/admin/aigc/config", "")

	const push = "/api/v1/chat/push"
	v.withKey(400, push, "X-Chat-Push-Key", "planted-push-key-of-32-characters", `{"sessions":[{"id":"a"}]}`)
	v.withKey(401, push, "X-Chat-Push-Key", "planted-push-key-of-32-characters!", `{}`)
	v.withKey(401, push, "Authorization", "Bearer planted-push-key-of-32-characters", `{}`)
}

// deployed uses the secrets of deployments.
func (v *vault) deployed() {
	v.deploy("guide")
	v.deploy("keyed")
	for _, agent := range []string{"guide", "keyed"} {
		key := v.send(200, "GET", adminAgents+"/"+agent+"/deploy", "").string(v.t, "apiKey")
		v.add("API key of "+agent, key, inResponses, inDeployments, inRuntimes)
		v.withKey(200, "/runtime/"+agent+"/v1/agents/"+agent+"/runs?key="+key, "X-Api-Key", key, `{"message":"hello"}`)
	}
	v.add("chat", "planted-chat-text", inResponses, inDatabase, inDeployments)
	require.Contains(v.t, v.send(200, "POST", v.session("guide")+"/messages", `{"message":"planted-chat-text"}`).text, `"ReservedCode1":"v1.`)
	v.send(200, "POST", v.session("keyed")+"/messages", `{"message":"hello"}`)
	v.send(200, "GET", adminAgents+"/keyed/deploy/logs", "")
	v.send(200, "GET", "/api/v1/agents/keyed/detail", "")
	v.check(v.t, inDeployments, files(v.t, filepath.Join(v.data, "deployments"), ""), "planted-mcp-value")
	environment := ""
	for _, pid := range runtimes(v.path) {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		require.NoError(v.t, err)
		environment += string(text)
	}
	v.check(v.t, inRuntimes, environment, "PATH=")
	for _, agent := range []string{"guide", "keyed"} {
		v.send(202, "POST", adminAgents+"/"+agent+"/deploy/stop", "")
		v.until(agent, func(s map[string]any) bool { return s["state"] == "stopped" })
		v.send(204, "DELETE", adminAgents+"/"+agent+"/deploy", "")
		v.until(agent, func(s map[string]any) bool { return s["state"] == "not_deployed" })
	}
	v.send(200, "GET", "/api/v1/admin/audit-logs/export", "")
}

// external uses the secrets of logins with an identity provider.
func (v *vault) external() {
	idp := startProvider(v.t)
	v.env = append(v.env, "AUTH_MODE", "external", "IDP_ISSUER", idp.URL, "IDP_CLIENT_ID", "hub", "IDP_CLIENT_SECRET", v.add("global client secret", "planted-global-client-secret"))
	v.Process = spawn(v.t, v.path, v.env)
	v.withKey(201, "/api/v1/ops/tenant-clients", "X-Ops-Key", "planted-ops-key-of-32-characters!",
		`{"org":"acme","clientId":"c","issuer":"`+idp.URL+`","clientSecret":"`+v.add("client secret", "planted-client-secret")+`"}`)
	v.withKey(401, "/api/v1/ops/tenant-clients", "X-Ops-Key", "planted-ops-key-of-32-characters", `{}`)
	for org, row := range map[string]struct {
		status int
		fields []string
	}{"default": {200, []string{"access_token", "refresh_token"}}, "acme": {502, nil}} {
		begun := v.issue(http.StatusFound, "GET", "/auth/login?org="+org, "")
		cookie, _, _ := strings.Cut(begun.header.Get("Set-Cookie"), ";")
		back, code, state := idp.authorize(v.t, begun.header.Get("Location"))
		v.add("code of "+org, code)
		v.add("state of "+org, state)
		v.add("cookie of "+org, strings.TrimPrefix(cookie, "hub_login="))
		req, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, back, http.NoBody)
		require.NoError(v.t, err)
		req.Header.Set("Cookie", cookie)
		res := do(v.t, req)
		require.Equal(v.t, row.status, res.status, res.text)
		for _, field := range row.fields {
			v.add(field+" of "+org, res.string(v.t, field))
		}
		if row.fields == nil {
			fmt.Fprintln(&v.seen, res.header, res.text)
		}
	}
	for name, text := range idp.tokens() {
		v.add(name, text)
	}
}

// stop stops the hub.
func (v *vault) stop() {
	v.Signal(v.t, syscall.SIGTERM)
	require.Zero(v.t, v.Exit(v.t))
	stdout := v.Stdout.String()
	if printed := printedToken.FindStringSubmatch(stdout); printed != nil { // in a link and in a command
		stdout = strings.ReplaceAll(stdout, printed[1], "")
	}
	fmt.Fprintln(&v.log, v.Log, stdout)
}
