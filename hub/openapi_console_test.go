package hub_test

import (
	"regexp"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

// consoleFiles requests every file that the page of the console names.
func (c *contract) consoleFiles() {
	c.t.Helper()
	files := regexp.MustCompile(`"(/console/assets/[^"]+)"`).FindAllStringSubmatch(c.send("GET", "/", "", "").text, -1)
	require.NotEmpty(c.t, files)
	for _, file := range files {
		require.Equal(c.t, 200, c.send("GET", file[1], "", "").status, file[1])
	}
	c.reject(404, wire.NotFound, "GET", "/console/assets/0/app/main.js", "", "")
}

// consoleSessions signs pages in and out.
func (c *contract) consoleSessions(admin string) {
	const session, refresh = "/console/session", "/console/session/refresh"
	cookie := func(res response) string {
		value, _, _ := strings.Cut(res.header.Get("Set-Cookie"), ";")
		return value
	}
	enter := func(name string) (string, response) {
		res := c.send("POST", session, "", `{"username":"`+name+`","password":"`+password+`"}`)
		res.want(200)
		return cookie(res), res
	}
	meg := c.newcomer(admin, "meg", "member")
	c.faulty("POST", session, "", `{}`, `{"username":"","password":""}`)
	for range 5 {
		c.reject(401, code.InvalidCredentials, "POST", session, "", `{"username":"meg","password":"wrong"}`)
	}
	c.reject(429, wire.RateLimited, "POST", session, "", `{"username":"meg","password":"`+password+`"}`)
	given := c.ok(200, "POST", meg+"/reset-password", admin, "")["password"].(string)
	reset := c.send("POST", session, "", `{"username":"meg","password":"`+given+`"}`)
	require.Equal(c.t, true, reset.want(200)["must_change_password"])
	next := c.send("POST", refresh, "", "", "Cookie", cookie(reset))
	require.Equal(c.t, true, next.want(200)["must_change_password"])
	require.NotContains(c.t, next.text, "rt_", "the refresh token is only in the cookie")

	c.newcomer(admin, "kit", "member")
	first, entered := enter("kit")
	name, _, _ := strings.Cut(first, "=")
	_, port, _ := strings.Cut(strings.TrimPrefix(c.url, "http://"), ":")
	require.Equal(c.t, "hub-session"+port, name, "another hub of the host has another cookie")
	require.Contains(c.t, entered.header.Get("Set-Cookie"), "; Path=/console/session;", "no other program of the host receives it")
	c.reject(401, wire.Unauthenticated, "POST", refresh, "", "")
	c.reject(401, wire.Unauthenticated, "POST", refresh, "", "", "Cookie", name+"=unknown")
	c.reject(401, wire.Unauthenticated, "DELETE", session, "", "", "Cookie", name+"=unknown")
	c.reject(409, wire.Conflict, "POST", session, "", `{"username":"meg","password":"`+password+`"}`, "Cookie", first)
	require.Empty(c.t, c.send("POST", refresh, "", "", "Cookie", first).header.Get("Set-Cookie"), "is not older than five minutes")
	c.wait(6 * time.Minute)
	rotated := c.send("POST", refresh, "", "", "Cookie", first)
	c.ok(200, "GET", "/auth/userinfo", rotated.want(200)["access_token"].(string), "")
	c.reject(401, code.RefreshReused, "POST", refresh, "", "", "Cookie", first)
	c.reject(401, code.RefreshReused, "DELETE", session, "", "", "Cookie", first)
	require.Equal(c.t, name+"=", cookie(c.send("DELETE", session, "", "", "Cookie", cookie(rotated))))
	c.reject(401, wire.TokenRevoked, "POST", refresh, "", "", "Cookie", cookie(rotated))

	again, _ := enter("kit")
	for range 120 {
		c.send("POST", refresh, "", "", "Cookie", again).want(200)
	}
	c.reject(429, wire.RateLimited, "POST", refresh, "", "", "Cookie", again)
	idle, _ := enter("kit")
	c.wait(15 * 24 * time.Hour)
	c.reject(401, wire.TokenExpired, "POST", refresh, "", "", "Cookie", idle)
	c.continued(admin)
	for _, request := range []string{"POST " + session, "POST " + refresh, "DELETE " + session} {
		method, path, _ := strings.Cut(request, " ")
		for _, foreign := range [][]string{{"Origin", "https://evil.example.com"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", ""}, {"Sec-Fetch-Site", "none"}} {
			c.reject(403, wire.Forbidden, method, path, "", "", foreign...)
		}
	}
}

// continued continues the sessions of new accounts in a page.
func (c *contract) continued(admin string) {
	const session = "/console/session"
	register := func(name string) string {
		admin, _ = c.enter("admin")
		token := c.ok(201, "POST", invites, admin, `{"role":"member"}`)["token"].(string)
		return c.ok(201, "POST", "/auth/register", "", `{"token":"`+token+`","username":"`+name+`","password":"`+password+`"}`)["refresh_token"].(string)
	}
	body := func(refresh string) string { return `{"refresh_token":"` + refresh + `"}` }
	lea := body(register("lea"))
	entered := c.send("POST", session, "", lea)
	require.Equal(c.t, "lea", entered.want(200)["user"].(map[string]any)["username"])
	require.NotContains(c.t, entered.text, "rt_", "the refresh token is only in the cookie")
	c.reject(401, code.RefreshReused, "POST", session, "", lea)
	c.reject(401, wire.Unauthenticated, "POST", session, "", body("rt_unknown"))
	cookie, _, _ := strings.Cut(entered.header.Get("Set-Cookie"), ";")
	kim := register("kim")
	c.reject(409, wire.Conflict, "POST", session, "", body(kim), "Cookie", cookie)
	replaced := c.send("POST", session, "", `{"refresh_token":"`+kim+`","replace":true}`, "Cookie", cookie)
	require.Equal(c.t, "kim", replaced.want(200)["user"].(map[string]any)["username"], "the question did not use the token")
	ben := register("ben")
	c.reject(409, wire.Conflict, "POST", session, "", body(ben), "Cookie", cookie)
	c.reject(401, wire.Unauthenticated, "POST", session, "", body("rt_unknown"), "Cookie", cookie)
	c.ok(204, "POST", "/auth/logout", "", body(ben))
	c.reject(401, wire.TokenRevoked, "POST", session, "", body(ben))
	late := register("eve")
	c.wait(15 * 24 * time.Hour)
	c.reject(401, wire.TokenExpired, "POST", session, "", body(late))
}

// disabledPages are those of a user who is disabled.
func (c *contract) disabledPages(admin string) {
	dan := c.newcomer(admin, "dan", "member")
	login := `{"username":"dan","password":"` + password + `"}`
	kept, _, _ := strings.Cut(c.send("POST", "/console/session", "", login).header.Get("Set-Cookie"), ";")
	c.ok(200, "PATCH", dan, admin, `{"status":"disabled"}`)
	c.reject(403, code.AccountDisabled, "POST", "/console/session", "", login)
	c.reject(403, code.AccountDisabled, "POST", "/console/session/refresh", "", "", "Cookie", kept)
	c.reject(403, code.AccountDisabled, "DELETE", "/console/session", "", "", "Cookie", kept)
}
