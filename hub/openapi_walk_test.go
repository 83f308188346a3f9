package hub_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

const (
	unknownID = "0198c0de-0000-7000-8000-000000000000" // an id that nothing has
	users     = "/api/v1/admin/users"
	invites   = "/api/v1/admin/invites"
	tokens    = "/api/v1/cli/tokens"
	issue     = "/api/v1/cli/issue-token"
)

// unseen are responses that the walk does not cause, with the reason.
var unseen = map[string]string{
	"POST /auth/change-password 409":               "another change has to come between two statements",
	"GET /auth/mode 200 default_org":               "only in external mode",
	"GET /auth/mode 200 program":                   "only with Config.Authenticate",
	"POST /api/v1/admin/users 409 conflict":        "only in external mode",
	"GET /auth/userinfo 200 email":                 "users of the built-in mode have none",
	"GET /auth/userinfo 200 groups":                "users of the built-in mode have none",
	"POST /auth/setup 201 must_change_password":    "only a reset sets it",
	"POST /auth/register 201 must_change_password": "only a reset sets it",

	"POST /api/v1/admin/users/{id}/reset-password 409": "only in external mode",
	"POST /auth/register 429":                          "it takes more than 64 concurrent registrations: password.TestOthersSignInDuringAFlood",
	"POST /api/v1/admin/invites 409":                   "it takes 1,000 invitations: session.TestOpenInvitesAreLimited",
	"POST /api/v1/admin/providers/{id}/reveal-key 409": "it takes other encryption keys: provider.TestKeysThatCannotBeOpened",
	"PUT /api/v1/admin/providers/{id}/key 409":         "it takes 32 MiB of providers",
	"PUT /api/v1/admin/aigc/config 409":                "it takes 1,000 keys",

	"POST /api/v1/cli/issue-token 409": "it takes 100 tokens: session.TestCLITokensOfAUserAreLimited",

	"POST /api/v1/agents/{name}/chat/sessions 409": "it takes 10,000 sessions: chat.TestSessionsOfAUserAreLimited",
}

// walks cause the responses in the document, each on a hub of its own, as its first admin.
var walks = map[string]func(c *contract, admin string){
	"users": (*contract).walkUsers, "invitations": (*contract).invitations, "sign-ins": (*contract).signIns, "sessions of pages": (*contract).consoleSessions, "pages of disabled users": (*contract).disabledPages,
	"passwords": (*contract).passwords,
	"tokens":    (*contract).cliTokens, "providers": (*contract).providers, "aigc": (*contract).aigc, "catalog": (*contract).catalog,
	"deployments": (*contract).deployments, "chats": (*contract).chats, "approvals": (*contract).approvals, "artifacts": (*contract).artifacts, "expiry": (*contract).expiry,
	"refusals": (*contract).refusals, "rate limits": (*contract).rateLimited, "audit log": (*contract).auditLog,
}

// The walks cause every response in the document, with every code and every field, and record every
// action. They run on PostgreSQL, which rejects values that SQLite accepts.
func TestResponsesMatchTheDocument(t *testing.T) {
	t.Parallel()
	seen := make(chan *coverage, len(walks)+2)
	t.Run("walks", func(t *testing.T) {
		run := func(name string, walk func(c *contract)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newContract(t, postgres(t))
				walk(c)
				seen <- c.coverage
			})
		}
		run("setup", (*contract).firstRun)
		for name, walk := range walks {
			run(name, func(c *contract) {
				walk(c, c.setUp())
				c.recordActions()
			})
		}
		run("no database", (*contract).withoutDatabase)
	})
	if len(seen) < cap(seen) {
		return // -run chose some of them
	}
	c := newContract(t, sqlite(t))
	for range cap(seen) {
		c.add(<-seen)
	}
	c.complete()
}

// ok sends a request that must succeed and returns the body of the response.
func (c *contract) ok(status int, method, path, token, body string) map[string]any {
	c.t.Helper()
	return c.send(method, path, token, body).want(status)
}

// faulty sends bodies of which each has faults in its fields.
func (c *contract) faulty(method, path, token string, bodies ...string) {
	c.t.Helper()
	for _, body := range bodies {
		c.reject(http.StatusBadRequest, wire.ValidationFailed, method, path, token, body)
	}
}

// override returns a JSON object with further members, which replace its own of the same name. They
// begin with a comma, or are empty.
func (c *contract) override(object, members string) string {
	c.t.Helper()
	all := map[string]json.RawMessage{}
	require.NoError(c.t, json.Unmarshal([]byte(object), &all))
	require.NoError(c.t, json.Unmarshal([]byte("{"+strings.TrimPrefix(members, ",")+"}"), &all))
	text, err := json.Marshal(all)
	require.NoError(c.t, err)
	return string(text)
}

// unpaged asks for pages that there cannot be, and for some that there can.
func (c *contract) unpaged(path, token string) {
	c.t.Helper()
	for _, query := range []string{"page=0", "page=-1", "page=1.5", "page=one", "page_size=0", "page_size=ten", "page=%zz"} {
		c.reject(http.StatusBadRequest, wire.InvalidRequest, "GET", path+"?"+query, token, "")
	}
	for _, query := range []string{"", "?page=&page_size=", "?page=1000000&page_size=100", "?page_size=101", "?page=1&page_size=1&other=1"} {
		require.IsType(c.t, []any{}, c.ok(200, "GET", path+query, token, "")["items"])
	}
}

// unpagedSize is unpaged for a list whose pages have no numbers.
func (c *contract) unpagedSize(path, token string) {
	c.t.Helper()
	for _, query := range []string{"page_size=0", "page_size=ten", "page_size=%zz"} {
		c.reject(http.StatusBadRequest, wire.InvalidRequest, "GET", path+"?"+query, token, "")
	}
	for _, query := range []string{"", "?cursor=&page_size=", "?page_size=101"} {
		require.IsType(c.t, []any{}, c.ok(200, "GET", path+query, token, "")["items"])
	}
}

// firstRun sets a hub up.
func (c *contract) firstRun() {
	require.Equal(c.t, true, c.ok(200, "GET", "/auth/mode", "", "")["setup_required"])
	c.ok(200, "GET", "/health", "", "")
	c.ok(200, "GET", "/health/ready", "", "")
	c.ok(200, "GET", "/.well-known/jwks.json", "", "")
	for _, path := range []string{"/openapi.yaml", "/openapi.json", "/docs", "/", "/console", "/console/login", "/console/agents/a", "/console/agents/a/logs"} {
		require.Equal(c.t, 200, c.send("GET", path, "", "").status)
	}
	for _, path := range []string{"/", "/console", "/console/login", "/console/agents/a", "/console/agents/a/logs"} {
		c.reject(404, wire.NotFound, "GET", path, "", "", "Accept", "application/json")
	}
	c.consoleFiles()
	c.reject(404, wire.NotFound, "GET", "/auth/login", "", "")
	const setup = "/auth/setup"
	with := func(fields string) string { return `{"setup_token":"` + setupToken + `",` + fields + `}` }
	c.reject(401, wire.Unauthenticated, "POST", setup, "", `{"password":"`+password+`"}`)
	for range 5 {
		c.reject(401, code.InvalidCredentials, "POST", setup, "", `{"password":"`+password+`","setup_token":"another"}`)
	}
	c.reject(429, wire.RateLimited, "POST", setup, "", with(`"password":"`+password+`"`))
	c.wait(16 * time.Minute)
	c.faulty("POST", setup, "", with(`"password":"short"`), with(`"username":"ada"`), with(`"password":"`+password+`","username":"-ada"`),
		with(`"password":"`+password+`","display_name":" "`), with(`"password":"`+password+`","display_name":"a\u202eb"`))
	body := with(`"password":"` + password + `","username":null,"display_name":null,"later":[]`)
	c.ok(201, "POST", setup, "", body)
	c.reject(409, code.AlreadyInitialized, "POST", setup, "", body)
	require.Equal(c.t, false, c.ok(200, "GET", "/auth/mode", "", "")["setup_required"])
}

// userBody is the body that creates a user.
func userBody(name, role string, more ...string) string {
	return `{"username":"` + name + `","password":"` + password + `","role":"` + role + `"` + strings.Join(more, "") + `}`
}

// enter signs a user in.
func (c *contract) enter(name string) (access, refresh string) {
	c.t.Helper()
	body := c.ok(200, "POST", "/auth/login", "", `{"username":"`+name+`","password":"`+password+`"}`)
	return body["access_token"].(string), body["refresh_token"].(string)
}

func (c *contract) walkUsers(admin string) {
	me := users + "/" + c.ok(200, "GET", "/auth/userinfo", admin, "")["id"].(string)
	c.reject(409, code.LastAdmin, "PATCH", me, admin, `{"role":"member"}`)
	c.reject(409, code.LastAdmin, "DELETE", me, admin, "")
	c.faulty("POST", users, admin, `{}`, userBody("", "member"), userBody("ada lovelace", "member"), userBody(strings.Repeat("a", 65), "member"), userBody("ada", "root"),
		userBody("ada", ""), userBody("ada", "member", `,"displayName":"\u0007"`), userBody("ada", "member", `,"displayName":"`+strings.Repeat("a", 129)+`"`),
		`{"username":"ada","password":"`+strings.Repeat("p", 129)+`","role":"member"}`, `{"username":null,"password":null,"role":null}`)
	ada := users + "/" + c.ok(201, "POST", users, admin, userBody("ada", "admin", `,"displayName":"Ada Lovelace","more":1`))["id"].(string)
	c.ok(201, "POST", users, admin, userBody("x", "maintainer", `,"displayName":""`))
	c.ok(201, "POST", users, admin, userBody(strings.Repeat("a", 64), "member", `,"displayName":"`+strings.Repeat("ü", 128)+`"`))
	c.reject(409, wire.NameTaken, "POST", users, admin, userBody("ADA", "member"))
	c.reject(400, wire.InvalidRequest, "POST", users, admin, userBody("nul", "member", `,"displayName":"\u0000"`))
	c.unpaged(users, admin)
	c.ok(200, "GET", ada, admin, "")
	for _, body := range []string{
		`{}`, `{"role":"member"}`, `{"role":"admin","status":"disabled","displayName":"A. L."}`, `{"role":null,"status":"active","displayName":null}`,
	} {
		c.ok(200, "PATCH", ada, admin, body)
	}
	c.faulty("PATCH", ada, admin, `{"role":"Admin"}`, `{"status":"gone"}`, `{"displayName":""}`, `{"displayName":"\n"}`, `{"role":"","status":""}`)
	for _, row := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"PATCH", "", `{}`}, {"DELETE", "", ""}, {"POST", "/reset-password", ""}, {"GET", "/sessions", ""}, {"DELETE", "/sessions", ""},
		{"GET", "/tokens", ""}, {"DELETE", "/tokens/" + unknownID, ""},
	} {
		c.reject(404, wire.NotFound, row.method, users+"/"+unknownID+row.path, admin, row.body)
		c.reject(404, wire.NotFound, row.method, users+"/ada"+row.path, admin, row.body)
	}
	c.enter("ada")
	c.unpaged(ada+"/sessions", admin)
	c.ok(204, "DELETE", ada+"/sessions", admin, "")
	c.ok(204, "DELETE", ada, admin, "")
}

func (c *contract) invitations(admin string) {
	c.faulty("POST", invites, admin, `{}`, `{"role":"guest"}`, `{"role":"member","note":"`+strings.Repeat("n", 501)+`"}`, `{"role":"member","note":"a\u0007"}`)
	ivy := c.ok(201, "POST", invites, admin, `{"role":"admin","note":" For Ivy\n"}`)
	spare := c.ok(201, "POST", invites, admin, `{"role":"member","note":null}`)
	c.unpaged(invites, admin)
	token := ivy["token"].(string)
	c.ok(200, "GET", "/auth/invite/"+token, "", "")
	join := func(name, more string) string {
		return `{"token":"` + token + `","username":"` + name + `","password":"` + password + `"` + more + `}`
	}
	c.faulty("POST", "/auth/register", "", `{}`, join("-", ""), join("ivy", `,"display_name":"\t"`), `{"token":"","username":"ivy","password":"`+password+`"}`)
	c.reject(409, wire.NameTaken, "POST", "/auth/register", "", join("ADMIN", ""))
	body := c.ok(201, "POST", "/auth/register", "", join("ivy", `,"display_name":""`))
	c.reject(404, code.InviteInvalid, "POST", "/auth/register", "", join("eve", ""))
	c.reject(404, code.InviteInvalid, "GET", "/auth/invite/"+token, "", "")
	c.reject(409, wire.Conflict, "DELETE", invites+"/"+ivy["id"].(string), admin, "")
	c.ok(204, "DELETE", invites+"/"+spare["id"].(string), admin, "")
	c.ok(204, "DELETE", invites+"/"+spare["id"].(string), admin, "")
	c.reject(404, wire.NotFound, "DELETE", invites+"/"+unknownID, admin, "")

	// Her invitations go with her role.
	c.ok(201, "POST", invites, body["access_token"].(string), `{"role":"admin"}`)
	c.ok(200, "PATCH", users+"/"+body["user"].(map[string]any)["id"].(string), admin, `{"role":"maintainer"}`)
	c.ok(200, "GET", invites, admin, "")
}

func (c *contract) signIns(admin string) {
	const login, refresh, logout, sessions = "/auth/login", "/auth/refresh", "/auth/logout", "/auth/sessions"
	meg := c.newcomer(admin, "meg", "member")
	c.faulty("POST", login, "", `{}`, `{"username":"","password":""}`, `{"username":"meg","password":null}`)
	c.reject(401, code.InvalidCredentials, "POST", login, "", `{"username":"nobody\u0007","password":"wrong"}`)
	for range 5 {
		c.reject(401, code.InvalidCredentials, "POST", login, "", `{"username":"meg","password":"wrong"}`)
	}
	c.reject(429, wire.RateLimited, "POST", login, "", `{"username":"meg","password":"`+password+`"}`)
	c.ok(200, "POST", meg+"/reset-password", admin, "") // lifts the lock
	c.ok(204, "DELETE", meg, admin, "")
	meg = c.newcomer(admin, "meg", "member")
	access, first := c.enter("meg")
	_, other := c.enter("MEG")
	c.ok(200, "GET", "/auth/userinfo", access, "")
	c.unpaged(sessions, access)
	items := c.ok(200, "GET", sessions, access, "")["items"].([]any)
	require.Len(c.t, items, 2)
	for _, item := range items {
		if s := item.(map[string]any); s["current"] == false {
			c.ok(204, "DELETE", sessions+"/"+s["id"].(string), access, "")
		}
	}
	c.reject(404, wire.NotFound, "DELETE", sessions+"/"+unknownID, access, "")

	c.faulty("POST", sessions, access, `{}`, `{"code_challenge":""}`, `{"code_challenge":"`+strings.Repeat("/", 43)+`"}`)
	c.reject(400, wire.InvalidRequest, "POST", sessions, access, `{"code_challenge":1}`)
	handed := c.ok(201, "POST", sessions, access, `{"code_challenge":"`+strings.Repeat("A", 43)+`"}`)["authorization_code"].(string)
	c.reject(401, wire.Unauthenticated, "POST", refresh, "", `{"refresh_token":"`+handed+`","code_verifier":"unknown"}`)
	c.faulty("POST", refresh, "", `{}`, `{"refresh_token":""}`, `{"refresh_token":null}`)
	c.reject(400, wire.InvalidRequest, "POST", refresh, "", `{"refresh_token":1}`)
	give := func(token string) string { return `{"refresh_token":"` + token + `"}` }
	c.reject(401, wire.Unauthenticated, "POST", refresh, "", give("unknown"))
	c.reject(401, wire.TokenRevoked, "POST", refresh, "", give(other))
	second := c.ok(200, "POST", refresh, "", give(first))["refresh_token"].(string)
	c.reject(401, code.RefreshReused, "POST", refresh, "", give(first))
	c.wait(11 * time.Second)
	c.reject(401, code.RefreshReused, "POST", refresh, "", give(first))
	c.reject(401, wire.TokenRevoked, "POST", refresh, "", give(second))

	access, next := c.enter("meg")
	for range 10 {
		next = c.ok(200, "POST", refresh, "", give(next))["refresh_token"].(string)
	}
	c.reject(429, wire.RateLimited, "POST", refresh, "", give(next))
	c.ok(204, "POST", logout, access, "")
	c.reject(401, wire.TokenRevoked, "POST", logout, access, `{}`)
	_, last := c.enter("meg")
	c.ok(204, "POST", logout, "", give(last))
	c.reject(400, wire.InvalidRequest, "POST", logout, "", `{"refresh_token":1}`)
	c.ok(204, "DELETE", meg, admin, "")

	dan := c.newcomer(admin, "dan", "member")
	_, kept := c.enter("dan")
	c.ok(200, "PATCH", dan, admin, `{"status":"disabled"}`)
	c.reject(403, code.AccountDisabled, "POST", login, "", `{"username":"dan","password":"`+password+`"}`)
	c.reject(403, code.AccountDisabled, "POST", refresh, "", give(kept))
}

func (c *contract) passwords(admin string) {
	const change = "/auth/change-password"
	c.newcomer(admin, "pat", "maintainer")
	access, _ := c.enter("pat")
	c.enter("pat")
	bodyOf := func(from, to string) string { return `{"old_password":"` + from + `","new_password":"` + to + `"}` }
	c.faulty("POST", change, access, `{}`, bodyOf("", "long enough"), bodyOf(password, "short"), bodyOf(password, strings.Repeat("p", 129)))
	c.ok(204, "POST", change, access, bodyOf(password, "another password"))
	cli := c.ok(201, "POST", issue, access, `{"name":"ci"}`)["token"].(string)
	c.reject(403, wire.Forbidden, "POST", change, cli, bodyOf("another password", password))
	for range 5 {
		c.reject(401, code.InvalidCredentials, "POST", change, access, bodyOf("wrong", password))
	}
	c.reject(401, wire.TokenRevoked, "POST", change, access, bodyOf("another password", password))
	signedIn := c.ok(200, "POST", "/auth/login", "", `{"username":"pat","password":"another password"}`)
	for range 10 {
		c.reject(401, code.InvalidCredentials, "POST", "/auth/login", "", `{"username":"pat","password":"wrong","device_token":"`+signedIn["device_token"].(string)+`"}`)
	}
	c.reject(429, wire.RateLimited, "POST", change, signedIn["access_token"].(string), bodyOf("another password", password))
	offline, err := c.ResetPassword(c.t.Context(), "pat")
	require.NoError(c.t, err)
	c.ok(200, "POST", "/auth/login", "", `{"username":"pat","password":"`+offline+`"}`)
}

func (c *contract) cliTokens(admin string) {
	mia := c.newcomer(admin, "mia", "maintainer")
	access, _ := c.enter("mia")
	c.faulty("POST", issue, access, `{}`, `{"name":" "}`, `{"name":"a\nb"}`, `{"name":"`+strings.Repeat("n", 101)+`"}`, `{"name":"ci","expiresInDays":0}`,
		`{"name":"ci","expiresInDays":366}`)
	c.reject(400, wire.InvalidRequest, "POST", issue, access, `{"name":"ci","expiresInDays":1.5}`)
	c.reject(400, wire.InvalidRequest, "POST", issue, access, `{"name":"ci","expiresInDays":"1"}`)
	var made []map[string]any
	for _, body := range []string{
		`{"name":" ci "}`, `{"name":"ci","expiresInDays":null}`, `{"name":"` + strings.Repeat("n", 100) + `","expiresInDays":365}`, `{"name":"ci","expiresInDays":1}`,
	} {
		made = append(made, c.ok(201, "POST", issue, access, body))
	}
	require.Equal(c.t, "cli", c.ok(200, "GET", "/auth/userinfo", made[0]["token"].(string), "")["token_type"])
	c.unpaged(tokens, access)
	c.unpaged(mia+"/tokens", admin)
	c.ok(204, "DELETE", tokens+"/"+made[1]["id"].(string), access, "")
	c.ok(204, "DELETE", mia+"/tokens/"+made[2]["id"].(string), admin, "")
	c.reject(404, wire.NotFound, "DELETE", tokens+"/"+made[1]["id"].(string), access, "")
	c.ok(204, "POST", "/auth/logout", made[0]["token"].(string), "")
}

// expiry waits until sessions, invites and tokens have expired.
func (c *contract) expiry(admin string) {
	_, refresh := c.enter("admin")
	cli := c.ok(201, "POST", issue, admin, `{"name":"ci","expiresInDays":1}`)["token"].(string)
	invite := c.ok(201, "POST", invites, admin, `{"role":"member"}`)["token"].(string)
	c.wait(15 * 24 * time.Hour)
	c.reject(401, wire.TokenExpired, "POST", "/auth/refresh", "", `{"refresh_token":"`+refresh+`"}`)
	c.reject(401, wire.TokenExpired, "GET", "/auth/userinfo", cli, "")
	c.reject(404, code.InviteInvalid, "GET", "/auth/invite/"+invite, "", "")
	admin, _ = c.enter("admin")
	require.Equal(c.t, "expired", c.ok(200, "GET", invites, admin, "")["items"].([]any)[0].(map[string]any)["status"])
}
