package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

// authenticates reports whether an operation checks a bearer token.
func authenticates(path, roles string) bool {
	return roles != "[anyone]" || path == "/auth/logout"
}

// pathOf makes a request path of one of the document.
func pathOf(path string) string {
	return strings.NewReplacer("{id}", unknownID, "{tokenId}", unknownID, "{token}", "inv_0", "/tools/{name}/file", "/tools/weather/file",
		"/skills/{name}/file", "/skills/brief/file", "{name}", "nobody", "{upload}", unknownID).Replace(path)
}

// refusals are those that many operations have in common.
func (c *contract) refusals(admin string) {
	c.upload(201, "POST", tools, admin, "weather.ts", "export default {name: 'weather', description: 'd', call() {}}")
	c.upload(201, "POST", skills, admin, "SKILL.md", "---\nname: brief\ndescription: d\n---\nBe brief.\n")
	c.newcomer(admin, "max", "member")
	expired, _ := c.enter("max")
	c.wait(14 * time.Minute)
	admin, _ = c.enter("admin")
	member, _ := c.enter("max")
	revoked, _ := c.enter("max")
	c.ok(204, "POST", "/auth/logout", revoked, "")
	gone := c.newcomer(admin, "gus", "admin")
	disabled, _ := c.enter("gus")
	c.ok(200, "PATCH", gone, admin, `{"status":"disabled"}`)
	c.newcomer(admin, "rex", "admin")
	given, err := c.ResetPassword(c.t.Context(), "rex")
	require.NoError(c.t, err)
	reset := c.ok(200, "POST", "/auth/login", "", `{"username":"rex","password":"`+given+`"}`)
	require.Equal(c.t, true, c.ok(200, "POST", "/auth/refresh", "", `{"refresh_token":"`+reset["refresh_token"].(string)+`"}`)["must_change_password"])
	c.wait(2 * time.Minute)
	for name, op := range c.operations() {
		method, path, _ := strings.Cut(name, " ")
		c.wait(2 * time.Second) // at most 60 denials within a minute
		roles := fmt.Sprint(op.Extensions["x-roles"])
		path = pathOf(path)
		if method != "GET" {
			c.reject(403, wire.Forbidden, method, path, "", "", "Sec-Fetch-Site", "cross-site")
		}
		if authenticates(path, roles) {
			for _, token := range []string{"", "no.such.token", "cli_0"} {
				c.reject(401, wire.Unauthenticated, method, path, token, "")
			}
			c.reject(401, wire.TokenExpired, method, path, expired, "")
			c.reject(401, wire.TokenRevoked, method, path, revoked, "")
			c.reject(403, code.AccountDisabled, method, path, disabled, "")
		}
		if roles != "[anyone]" && path != "/auth/change-password" && path != "/auth/userinfo" {
			c.reject(403, code.PasswordChangeRequired, method, path, reset["access_token"].(string), "")
		}
		if roles != "[anyone]" && !strings.Contains(roles, "member") {
			c.reject(403, wire.Forbidden, method, path, member, "")
		}
		if op.RequestBody != nil {
			c.unreadable(method, path, admin, op.RequestBody.Value.Content)
		}
	}
}

// rateLimited brings about what a caller with too many denied requests gets.
func (c *contract) rateLimited(admin string) {
	c.newcomer(admin, "kim", "member")
	denied, _ := c.enter("kim")
	for range 60 {
		c.reject(403, wire.Forbidden, "POST", users, denied, "")
	}
	kim := users + "/" + c.ok(200, "GET", "/auth/userinfo", denied, "")["id"].(string)
	c.ok(200, "PATCH", kim, admin, `{"status":"disabled"}`)
	for name, op := range c.operations() {
		method, path, _ := strings.Cut(name, " ")
		if authenticates(path, fmt.Sprint(op.Extensions["x-roles"])) {
			c.reject(429, wire.RateLimited, method, pathOf(path), denied, "")
		}
	}
}

// withoutDatabase asks a hub that has lost its database for everything.
func (c *contract) withoutDatabase() {
	admin := c.setUp()
	c.wait(2 * time.Minute) // then cached keys and sessions are too old
	require.NoError(c.t, c.Close())
	bodies := map[string]string{
		"/auth/setup": `{"password":"` + password + `"}`, "/auth/login": `{"username":"admin","password":"` + password + `"}`, "/auth/refresh": `{"refresh_token":"x"}`,
		"/console/session": `{"username":"admin","password":"` + password + `"}`,
		"/auth/register":   `{"token":"x","username":"eve","password":"` + password + `"}`,
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(c.url, "http://"), ":")
	for name, op := range c.operations() {
		method, path, _ := strings.Cut(name, " ")
		if op.Responses.Value("503") == nil {
			constant := path == "/" || strings.HasPrefix(path, "/console")
			require.True(c.t, constant || slices.Contains([]string{"GET /health", "GET /openapi.yaml", "GET /openapi.json", "GET /docs", "GET /auth/login"}, name), name)
		} else if path != "/health/ready" && !strings.HasPrefix(path, "/artifacts/") {
			c.reject(503, wire.Unavailable, method, pathOf(path), admin, bodies[path], "Cookie", "hub-session"+port+"=x")
		}
	}
	c.ok(200, "GET", "/health", "", "")
	require.Equal(c.t, "unavailable", c.ok(503, "GET", "/health/ready", "", "")["status"])
	require.NoError(c.t, c.Drain(c.t.Context()))
	require.Equal(c.t, "draining", c.ok(503, "GET", "/health/ready", "", "")["status"])
}

// unreadable sends bodies that cannot be read as the operation requires.
func (c *contract) unreadable(method, path, token string, content openapi3.Content) {
	c.t.Helper()
	large := `{"text":"` + strings.Repeat("x", 1<<20) + `"}`
	switch {
	case content["multipart/form-data"] != nil:
		c.rejectForm(400, wire.InvalidRequest, method, path, token, "--x\r\nContent")
		c.rejectForm(413, code.PayloadTooLarge, method, path, token, form("a.ts", "x", "title", large))
		c.reject(415, code.UnsupportedMedia, method, path, token, `{}`)
	case content["*/*"] != nil: // the walk of chats uploads
	case content[yamlType] != nil:
		c.reject(413, code.PayloadTooLarge, method, path, token, large, "Content-Type", yamlType)
		c.reject(415, code.UnsupportedMedia, method, path, token, `{}`)
	default:
		for _, body := range []string{`{`, `[]`, `null`, `"text"`, "{\"text\":\"\xff\"}"} {
			c.reject(400, wire.InvalidRequest, method, path, token, body)
		}
		if path == pushChats {
			large = strings.Repeat(" ", 10<<20) + large
		}
		c.reject(413, code.PayloadTooLarge, method, path, token, large)
		c.reject(415, code.UnsupportedMedia, method, path, token, `{}`, "Content-Type", "text/plain")
		c.reject(415, code.UnsupportedMedia, method, path, token, `{}`, "Content-Type", "application/json; charset=gbk")
	}
}
