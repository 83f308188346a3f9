package external_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

func TestRequiredClaim(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("acme", p, object{"requiredClaim": object{"name": "groups", "values": []string{"hub", "ops"}}})
		for name, row := range map[string]struct {
			name  string
			value any
			ok    bool
		}{
			"a text":             {"groups", "hub", true},
			"one of a list":      {"groups", []string{"x", "ops"}, true},
			"another":            {"groups", []string{"x"}, false},
			"in capitals":        {"groups", "HUB", false},
			"part of the value":  {"groups", "hub2", false},
			"another claim":      {"Groups", "hub", false},
			"none":               {"x", "hub", false},
			"null":               {"groups", nil, false},
			"an object":          {"groups", object{"hub": true}, false},
			"a list with others": {"groups", []any{1, "hub"}, false},
			"an empty list":      {"groups", []string{}, false},
		} {
			p.with(func() { p.onToken = func(c object) { c[row.name] = row.value } })
			a := newBrowser(t).login(s.url, "acme")
			if row.ok {
				require.Equal(t, http.StatusOK, a.status, name)
				continue
			}
			require.Equal(t, http.StatusUnauthorized, a.status, name)
		}
		require.Contains(t, strings.Join(s.log("system"), "\n"), `auth.login_failed acme failure {"reason":"claim_missing"}`)
		p.with(func() { p.onToken, p.user["groups"] = nil, "hub" })
		p.with(func() { p.onToken = func(c object) { delete(c, "groups") } }) // only the userinfo has it
		newBrowser(t).enter(s.url, "acme")
		p.with(func() { p.onToken = func(c object) { c["groups"] = "x" } }) // the token takes precedence
		newBrowser(t).login(s.url, "acme").refused(http.StatusUnauthorized, code.InvalidCredentials)
		s.ops("POST", "", object{"org": "acme", "clientId": "hub-acme", "requiredClaim": object{"name": ""}}).want(http.StatusOK)
		newBrowser(t).enter(s.url, "acme")
		for _, rule := range []object{{"name": "a"}, {"name": "a\n", "values": []string{"b"}}, {"name": "a", "values": []string{""}}} {
			s.ops("POST", "", object{"org": "acme", "clientId": "hub-acme", "requiredClaim": rule}).refused(http.StatusBadRequest, wire.ValidationFailed)
		}
	})
}

// The claim decides the role at each login, by both ways of completing it.
func TestRoleClaim(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("acme", p, object{"roleClaim": object{"name": "groups", "map": object{"ops": "admin", "dev": "maintainer", "all": "member"}}})
		b := newBrowser(t)
		for _, row := range []struct {
			groups any
			role   string
		}{
			{[]string{"all", "dev"}, "maintainer"}, {[]string{"dev", "ops"}, "admin"}, {"OPS", "member"}, {[]string{"ops"}, "admin"}, {nil, "member"}, {"dev", "maintainer"},
		} {
			p.with(func() { p.onToken = func(c object) { c["groups"] = row.groups } })
			require.Equal(t, row.role, b.enter(s.url, "acme")["user"].(object)["role"])
			require.Equal(t, row.role, b.get(s.url + "/auth/userinfo").want(http.StatusOK)["role"])
		}
		p.with(func() { p.onToken = func(c object) { c["groups"] = "ops" } })
		code := strings.TrimPrefix(b.get(b.get(b.start(s.url, "org=acme&return_to=/console/").String()).location().String()).location().Fragment, "code=")
		require.Equal(t, "admin", b.send("POST", s.url+"/auth/exchange", object{"code": code}).want(http.StatusOK)["user"].(object)["role"])
		require.Contains(t, strings.Join(s.log("acme"), "\n"), `user.update_role ada success {"role":{"from":"maintainer","to":"admin"}}`)
		s.ops("POST", "", object{"org": "acme", "clientId": "hub-acme", "roleClaim": object{"name": "g", "map": object{"a": "owner"}}}).refused(http.StatusBadRequest, wire.ValidationFailed)
	})
}

// Names of bootstrap admins are exact, and a subject is not a name.
func TestBootstrapAdminsAreExact(t *testing.T) {
	s := onSQLite(t, func(s *site) { s.admins = []string{"acme/Root", "acme/sub:google-oauth2|7/x", "acme/sub:8"} })
	p := newStandIn(s)
	s.register("acme", p)
	s.register("beta", p)
	role := func(org, subject, name string) any {
		p.with(func() { p.user = object{"sub": subject, "preferred_username": name} })
		return newBrowser(t).enter(s.url, org)["user"].(object)["role"]
	}
	require.Equal(t, "member", role("acme", "1", "root"))
	require.Equal(t, "member", role("acme", "2", "ROOT"))
	require.Equal(t, "member", role("acme", "3", "sub:8"), "a name like a subject")
	require.Equal(t, "member", role("acme", "4", "/sub:8"))
	require.Equal(t, "member", role("beta", "8", "x"), "of another organization")
	require.Equal(t, "admin", role("acme", "5", "Root"))
	require.Equal(t, "member", role("acme", "6", "Root"), "a name has this effect once")
	require.Equal(t, "admin", role("acme", "google-oauth2|7/x", "Root"))
	require.Equal(t, "admin", role("acme", "8", "Root"), "a subject counts whatever its name is")
	require.Equal(t, "admin", role("acme", "8", "x"))
}

// The claim owner counts whenever it is there, also for a client that is registered as oidc.
func TestOwnerOfEveryProvider(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	s.register("acme", p)
	for owner, ok := range map[any]bool{"acme": true, "beta": false, "ACME": false, "": false, 1: false} {
		p.with(func() { p.onToken = func(c object) { c["owner"] = owner } })
		require.Equal(t, ok, newBrowser(t).login(s.url, "acme").status == http.StatusOK, owner)
	}
	p.with(func() {
		p.user = object{"sub": "9", "owner": "beta", "preferred_username": "eve"}
		p.onToken = func(c object) { delete(c, "owner"); delete(c, "preferred_username") } // the userinfo has both
	})
	newBrowser(t).login(s.url, "acme").refused(http.StatusUnauthorized, code.InvalidCredentials)
}

// Admins see who a user is at the identity provider, and a changed name has a suffix.
func TestUsersOfAnIdentityProvider(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("acme", p)
		b := newBrowser(t)
		ada := b.enter(s.url, "acme")["user"].(object)
		p.with(func() { p.user = object{"sub": "2", "preferred_username": "ad\u0430", "email": "eve@example.com"} }) // a Cyrillic letter
		eve := newBrowser(t).enter(s.url, "acme")["user"].(object)
		require.Regexp(t, `^ad--[0-9a-f]{12}$`, eve["username"])
		s.admit(ada)
		for _, row := range b.get(s.url + "/api/v1/admin/users").want(http.StatusOK)["items"].([]any) {
			user := row.(object)
			require.Equal(t, p.URL, user["issuer"])
			require.Equal(t, user, b.get(s.url+"/api/v1/admin/users/"+user["id"].(string)).want(http.StatusOK))
			if user["id"] == eve["id"] {
				require.Equal(t, []any{"2", "eve@example.com"}, []any{user["subject"], user["email"]})
			}
		}
	})
}

// The groups of a user are those of the last login, by both ways of completing it, also for a
// session and a CLI token of before.
func TestGroups(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("acme", p, object{"groupsClaim": "groups"})
		require.Equal(t, "groups", s.ops("GET", "", nil).want(http.StatusOK)["items"].([]any)[0].(object)["groupsClaim"])
		b := newBrowser(t)
		groups := func() any { return b.get(s.url + "/auth/userinfo").want(http.StatusOK)["groups"] }
		b.enter(s.url, "acme")
		require.Nil(t, groups())
		var most, long []any
		for i := range 300 {
			most, long = append(most, fmt.Sprintf("%031d", i)), append(long, fmt.Sprintf("%0255d", i))
		}
		for _, row := range []struct{ claim, want any }{
			{claim: []string{"ops", "dev", "ops"}, want: []any{"dev", "ops"}},
			{claim: "ops", want: []any{"ops"}},
			{claim: []string{"a b", "ünï", "", "a\nb", strings.Repeat("x", 256)}, want: []any{"a b", "ünï"}},
			{claim: most, want: most[:256]},
			{claim: long[:100], want: long[:32]}, // 8 KiB
			{claim: []any{"ops", 1}, want: nil},
			{claim: object{"ops": true}, want: nil},
			{claim: "dev", want: []any{"dev"}},
			{claim: nil, want: nil},
		} {
			p.with(func() { p.onToken = func(c object) { c["groups"] = row.claim } })
			newBrowser(t).enter(s.url, "acme")
			require.Equal(t, row.want, groups())
		}
		p.with(func() { p.onToken = func(c object) { c["groups"] = "ops" } })
		code := strings.TrimPrefix(b.get(b.get(b.start(s.url, "org=acme&return_to=/console/").String()).location().String()).location().Fragment, "code=")
		body := b.send("POST", s.url+"/auth/exchange", object{"code": code}).want(http.StatusOK)
		require.Equal(t, []any{"ops"}, groups())
		s.admit(body["user"].(object))
		cli := b.issueToken(s.url)
		require.Equal(t, []any{"ops"}, cli.get(s.url + "/auth/userinfo").want(http.StatusOK)["groups"])
		require.Equal(t, []any{"ops"}, b.get(s.url + "/api/v1/admin/users").want(http.StatusOK)["items"].([]any)[0].(object)["groups"])
		require.Contains(t, strings.Join(s.log("acme"), "\n"), `"groups":["dev","ops"]}`)
		p.with(func() { p.onToken, p.user["groups"] = func(c object) { delete(c, "groups") }, "sre" }) // only the userinfo has it
		newBrowser(t).enter(s.url, "acme")
		s.wait(2 * time.Second) // the other replica follows
		require.Equal(t, []any{"sre"}, groups())

		s.ops("POST", "", object{"org": "acme", "clientId": "hub-acme", "groupsClaim": ""}).want(http.StatusOK)
		newBrowser(t).enter(s.url, "acme")
		s.wait(2 * time.Second)
		require.Nil(t, groups())
		for _, name := range []string{"a\n", strings.Repeat("x", 129)} {
			s.ops("POST", "", object{"org": "acme", "clientId": "hub-acme", "groupsClaim": name}).refused(http.StatusBadRequest, wire.ValidationFailed)
		}
	})
}

// A back-channel logout revokes CLI tokens only if the client asks for it.
func TestLogoutRevokesTokens(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("acme", p)
		p.with(func() { p.user["sid"] = "s1" })
		b := newBrowser(t)
		s.admit(b.enter(s.url, "acme")["user"].(object))
		cli := b.issueToken(s.url)
		out := func(more object) {
			claims := p.logoutClaims()
			for name, value := range more {
				if claims[name] = value; value == nil {
					delete(claims, name)
				}
			}
			require.Equal(t, 200, s.backchannel(s.url, signed(t, rsaKey(), "1", nil, claims)).status)
		}
		out(nil)
		b.get(s.url + "/auth/userinfo").want(http.StatusUnauthorized)
		cli.get(s.url + "/auth/userinfo").want(http.StatusOK)
		s.register("acme", p, object{"logoutRevokesTokens": true})
		out(object{"sub": "other"})
		cli.get(s.url + "/auth/userinfo").want(http.StatusOK)
		out(nil) // without a session
		cli.get(s.url+"/auth/userinfo").refused(http.StatusUnauthorized, wire.TokenRevoked)
		b.enter(s.url, "acme")
		second := b.issueToken(s.url)
		out(object{"sub": nil, "sid": "s1"})
		second.get(s.url+"/auth/userinfo").refused(http.StatusUnauthorized, wire.TokenRevoked)
		require.Contains(t, strings.Join(s.log("acme"), "\n"), `"tokensRevoked":1`)
	})
}
