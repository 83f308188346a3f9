package external_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/external"
	"github.com/seed93082962/agenthost/hub/wire"
)

func TestLogin(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("acme", p)
		b := newBrowser(t)
		body := b.enter(s.url, "acme")
		require.EqualValues(t, 900, body["expires_in"])
		user := body["user"].(object)
		require.Equal(t, "ada", user["username"])
		require.Equal(t, "acme", user["tenant_id"])
		info := b.get(s.url + "/auth/userinfo").want(http.StatusOK)
		require.Equal(t, "external", info["auth_mode"])
		require.Equal(t, "acme", info["org_id"])
		require.Equal(t, "Ada L.", info["display_name"])
		b.send("POST", s.url+"/auth/refresh", object{"refresh_token": body["refresh_token"]}).want(http.StatusOK)
		b.send("POST", s.url+"/auth/logout", nil).want(http.StatusNoContent)
		b.get(s.url + "/auth/userinfo").want(http.StatusUnauthorized)

		// Nothing of the provider is stored, logged or sent to the browser.
		text, _ := s.logs.Now()
		for _, secret := range []string{"opaque-access-token", "opaque-refresh-token", "secret-acme", "nonce"} {
			require.NotContains(t, text, secret)
		}
		entry, err := json.Marshal(body)
		require.NoError(t, err)
		require.NotContains(t, string(entry), "opaque")
		require.Contains(t, strings.Join(s.log("acme"), "\n"), `auth.external_login ada success`)
	})
}

func TestOrganizationOfALogin(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		b := newBrowser(t)
		mode := b.get(s.url + "/auth/mode").want(http.StatusOK)
		require.Equal(t, object{"mode": "external", "setup_required": false}, mode)
		for _, path := range []string{"/auth/login", "/auth/login?org=", "/auth/login?org=acme", "/auth/org-check", "/auth/org-check?org=acme", "/auth/login?org=../x"} {
			b.get(s.url+path).refused(http.StatusNotFound, wire.NotFound)
		}
		_, err := s.service.ResolveOrg(t.Context(), "")
		require.ErrorIs(t, err, wire.InvalidRequest)
		p := newStandIn(s)
		s.register("acme", p)
		s.register("beta", p)
		require.Equal(t, object{"org": "acme", "registered": true}, b.get(s.url+"/auth/org-check").want(http.StatusOK))
		require.Equal(t, object{"org": "beta", "registered": true}, b.get(s.url+"/auth/org-check?org=beta").want(http.StatusOK))
		b.get(s.url+"/auth/org-check?org=gamma").refused(http.StatusNotFound, wire.NotFound)
		b.get(s.url+"/auth/org-check?org=default").refused(http.StatusNotFound, wire.NotFound)
		b.get(s.url+"/auth/login?org=acme&org=beta").refused(http.StatusBadRequest, wire.InvalidRequest)
		require.Equal(t, "acme", b.get(s.url + "/auth/mode").want(http.StatusOK)["default_org"])
		require.Equal(t, "hub-acme", b.start(s.url, "").Query().Get("client_id"))
		org, err := s.service.ResolveOrg(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, "acme", org)
		org, err = s.service.ResolveOrg(t.Context(), "unregistered")
		require.NoError(t, err)
		require.Equal(t, "unregistered", org)
		_, err = s.service.ResolveOrg(t.Context(), "a-b")
		require.ErrorIs(t, err, wire.ValidationFailed)
	})
}

func TestGlobalClient(t *testing.T) {
	var p *standIn
	s := onSQLite(t, func(s *site) {
		p = newStandIn(s)
		s.global = external.GlobalClient{Issuer: p.URL, ClientID: "global", ClientSecret: "x"}
		s.admins = []string{"default/ada"}
	})
	user := newBrowser(t).enter(s.url, "")["user"].(object)
	require.Equal(t, "default", user["tenant_id"])
	require.Equal(t, "admin", user["role"])
	p.with(func() { p.user = object{"sub": "2", "name": "bob", "owner": "other"} })
	newBrowser(t).login(s.url, "").refused(http.StatusUnauthorized, code.InvalidCredentials)
	s.ops("POST", "", object{"org": "acme", "clientId": "c", "clientSecret": "x"}).want(http.StatusCreated) // of the same issuer
	require.Equal(t, "c", newBrowser(t).start(s.url, "").Query().Get("client_id"), "a registered default comes first")
	newBrowser(t).get(s.url+"/auth/login?org=beta").refused(http.StatusNotFound, wire.NotFound)
}

// Two organizations with issuers of their own have users with the same name and subject.
// A full name, which users choose, makes no user an admin.
func TestBootstrapAdminByName(t *testing.T) {
	s := onSQLite(t, func(s *site) { s.admins = []string{"acme/root", "beta/root"} })
	p, casdoor := newStandIn(s), newStandIn(s)
	s.register("acme", p)
	casdoor.casdoor, casdoor.user = true, object{"sub": "1", "owner": "beta", "name": "root"}
	s.register("beta", casdoor, object{"provider": "casdoor"})
	role := func(org string) any { return newBrowser(t).enter(s.url, org)["user"].(object)["role"] }
	p.with(func() { p.user = object{"sub": "1", "name": "root"} })
	require.Equal(t, "member", role("acme"))
	p.with(func() { p.user = object{"sub": "2", "preferred_username": "root", "name": "Ada"} })
	require.Equal(t, "admin", role("acme"))
	require.Equal(t, "admin", role("beta"))
}

func TestTwoOrganizationsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		orgs := []string{"acme", "beta"}
		for _, org := range orgs {
			s.register(org, newStandIn(s))
		}
		var wg sync.WaitGroup
		users := make([]object, 8)
		for i := range users {
			wg.Go(func() { users[i] = newBrowser(t).enter(s.url, orgs[i%2])["user"].(object) })
		}
		wg.Wait()
		for i, u := range users {
			require.Equal(t, orgs[i%2], u["tenant_id"])
			require.Equal(t, users[i%2]["id"], u["id"], "concurrent first logins")
			require.Equal(t, "ada", u["username"])
		}
		require.NotEqual(t, users[0]["id"], users[1]["id"])
	})
}

// The user of the other organization has the same name, and is not found.
func TestOrganizationsDoNotSeeEachOther(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		var admins [2]*browser
		var users, sessions, tokens [2]string
		for i, org := range []string{"acme", "beta"} {
			s.register(org, newStandIn(s))
			admins[i] = newBrowser(t)
			users[i] = admins[i].enter(s.url, org)["user"].(object)["id"].(string)
			_, err := s.db.Write().ExecContext(t.Context(), `UPDATE members SET role = 'admin' WHERE id = $1`, users[i])
			require.NoError(t, err)
		}
		s.replica = s.launch()
		for i, b := range admins {
			sessions[i] = b.get(s.url + "/auth/sessions").want(http.StatusOK)["items"].([]any)[0].(object)["id"].(string)
			tokens[i] = b.send("POST", s.url+"/api/v1/cli/issue-token", object{"name": "ci"}).want(http.StatusCreated)["id"].(string)
		}
		for i, b := range admins {
			list := b.get(s.url + "/api/v1/admin/users").want(http.StatusOK)
			require.EqualValues(t, 1, list["total"])
			other := 1 - i
			for _, route := range []string{
				"GET /api/v1/admin/users/{user}", "PATCH /api/v1/admin/users/{user}", "DELETE /api/v1/admin/users/{user}",
				"GET /api/v1/admin/users/{user}/sessions", "DELETE /api/v1/admin/users/{user}/sessions", "GET /api/v1/admin/users/{user}/tokens",
				"DELETE /api/v1/admin/users/{user}/tokens/{token}", "DELETE /auth/sessions/{session}", "DELETE /api/v1/cli/tokens/{token}",
			} {
				method, path, _ := strings.Cut(route, " ")
				path = strings.NewReplacer("{user}", users[other], "{session}", sessions[other], "{token}", tokens[other]).Replace(path)
				b.send(method, s.url+path, object{}).refused(http.StatusNotFound, wire.NotFound)
			}
		}
	})
}

func TestConsoleLogin(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("acme", p)
		second := s.launch() // any replica continues a login
		b := newBrowser(t)
		begin := func() string {
			at := b.start(s.url, "org=acme&return_to="+url.QueryEscape("/console/agents?page=2"))
			to := b.get(b.get(at.String()).location().String()).location()
			require.Equal(t, s.url+"/console/agents?page=2", strings.TrimSuffix(to.String(), "#"+to.Fragment))
			return to.Fragment
		}
		handed := strings.TrimPrefix(begin(), "code=")
		exchange := func(b *browser, handed string) answer {
			return b.send("POST", second.url+"/auth/exchange", object{"code": handed})
		}
		exchange(newBrowser(t), handed).refused(http.StatusUnauthorized, code.InvalidCredentials)
		exchange(b, strings.ToUpper(handed)).refused(http.StatusUnauthorized, code.InvalidCredentials)
		exchange(b, "").refused(http.StatusBadRequest, wire.ValidationFailed)
		require.Equal(t, "ada", exchange(b, handed).want(http.StatusOK)["user"].(object)["username"])
		exchange(b, handed).refused(http.StatusUnauthorized, code.InvalidCredentials)
		late := strings.TrimPrefix(begin(), "code=")
		s.wait(61 * time.Second)
		exchange(b, late).refused(http.StatusUnauthorized, code.InvalidCredentials)

		p.with(func() { p.onToken = func(c object) { c["aud"] = "another" } })
		require.Equal(t, "error=invalid_credentials", begin())
		p.Close()
	})
}

func TestTheDatabaseIsLostDuringAConsoleLogin(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	s.register("acme", p)
	b := newBrowser(t)
	at := b.start(s.url, "org=acme&return_to=/console/")
	p.with(func() { p.onToken = func(object) { _ = s.db.Close() } })
	require.Equal(t, "error=unavailable", b.get(b.get(at.String()).location().String()).location().Fragment)
}

func TestReturnTo(t *testing.T) {
	s := onSQLite(t, nil)
	s.register("acme", newStandIn(s))
	b := newBrowser(t)
	for _, to := range []string{"/console", "/console/", "/console/agents", "/console/agents/a-b?q=1&r=%2F"} {
		b.start(s.url, "return_to="+url.QueryEscape(to))
	}
	for _, to := range []string{
		"https://evil.example.com/console/", "//evil.example.com/console/", "/\\evil.example.com", "/console/../auth/logout", "/console/..", "/console/%2e%2e/x",
		"/console\\evil", "/consoles", "/", "console/", "/auth/userinfo", "javascript:alert(1)", "/console/\r\nSet-Cookie:a=b", "/console/a b", "/console/#code=1",
		"/console//evil.example.com", "/console/%2F/evil", "/console/ä", "\t/console/", "@evil.example.com/console/", "/console/" + strings.Repeat("x", 1100),
	} {
		b.get(s.url+"/auth/login?return_to="+url.QueryEscape(to)).refused(http.StatusBadRequest, wire.ValidationFailed)
	}
}

func TestCallbackFaults(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p, other := newStandIn(s), newStandIn(s)
		s.register("acme", p)
		s.register("beta", other)
		callback := func(b *browser) *url.URL { return b.get(b.start(s.url, "org=acme").String()).location() }
		edit := func(u *url.URL, name, value string) string {
			q := u.Query()
			q.Set(name, value)
			if value == "" {
				q.Del(name)
			}
			c := *u
			c.RawQuery = q.Encode()
			return c.String()
		}
		t.Run("replay", func(t *testing.T) {
			b := newBrowser(t)
			u := callback(b).String()
			b.get(u).want(http.StatusOK)
			b.get(u).refused(http.StatusBadRequest, wire.InvalidRequest)
		})
		t.Run("only once at the same time", func(t *testing.T) {
			b := newBrowser(t)
			u := callback(b).String()
			var wg sync.WaitGroup
			answers := make([]answer, 6)
			for i := range answers {
				wg.Go(func() { answers[i] = b.get(u) })
			}
			wg.Wait()
			count := map[int]int{}
			for _, a := range answers {
				count[a.status]++
			}
			require.Equal(t, map[int]int{200: 1, 400: 5}, count)
		})
		t.Run("login CSRF: another browser", func(t *testing.T) {
			b := newBrowser(t)
			u := callback(b).String()
			newBrowser(t).get(u).refused(http.StatusBadRequest, wire.InvalidRequest) // without a cookie
			victim := newBrowser(t)
			callback(victim) // with its own
			victim.get(u).refused(http.StatusBadRequest, wire.InvalidRequest)
			b.get(u).want(http.StatusOK) // the login was not used up
		})
		t.Run("HEAD does not complete it", func(t *testing.T) {
			b := newBrowser(t)
			u := callback(b).String()
			require.Equal(t, http.StatusMethodNotAllowed, b.send(http.MethodHead, u, nil).status)
			b.get(u).want(http.StatusOK)
		})
		t.Run("too late", func(t *testing.T) {
			b := newBrowser(t)
			u := callback(b).String()
			s.wait(10*time.Minute + time.Second)
			b.get(u).refused(http.StatusBadRequest, wire.InvalidRequest)
		})
		t.Run("state", func(t *testing.T) {
			b := newBrowser(t)
			u := callback(b)
			b.get(edit(u, "state", "")).refused(http.StatusBadRequest, wire.InvalidRequest)
			b.get(edit(u, "state", strings.Repeat("0", 64))).refused(http.StatusBadRequest, wire.InvalidRequest)
			b.get(u.String()+"&state=x").refused(http.StatusBadRequest, wire.InvalidRequest)
			b.get(u.String()).want(http.StatusOK)
		})
		t.Run("mix-up", func(t *testing.T) {
			b := newBrowser(t)
			b.get(edit(callback(b), "iss", other.URL)).refused(http.StatusUnauthorized, code.InvalidCredentials)
			b.get(edit(callback(b), "iss", "")).refused(http.StatusUnauthorized, code.InvalidCredentials)
			// The code of another provider and client.
			foreign := b.get(b.start(s.url, "org=beta").String()).location().Query().Get("code")
			b.get(edit(callback(b), "code", foreign)).refused(http.StatusUnauthorized, code.InvalidCredentials)
		})
		t.Run("an error of the provider", func(t *testing.T) {
			b := newBrowser(t)
			b.get(edit(callback(b), "error", "access_denied")).refused(http.StatusUnauthorized, code.InvalidCredentials)
			b.get(edit(callback(b), "code", "")).refused(http.StatusUnauthorized, code.InvalidCredentials)
		})
		t.Run("the client changed", func(t *testing.T) {
			b := newBrowser(t)
			u := callback(b)
			s.register("acme", p, object{"clientId": "new"})
			b.get(u.String()).refused(http.StatusUnauthorized, code.InvalidCredentials)
			s.register("acme", p)
		})
		log := strings.Join(s.log("system"), "\n")
		for _, reason := range []string{"issuer_mismatch", "code_rejected", "provider_error", "client_changed"} {
			require.Contains(t, log, `auth.login_failed acme failure {"reason":"`+reason+`"}`)
		}
	})
}

func TestCookie(t *testing.T) {
	s := onSQLite(t, nil)
	s.register("acme", newStandIn(s))
	b := newBrowser(t)
	a := b.get(s.url + "/auth/login")
	require.Regexp(t, `^hub_login=[0-9a-f]{64}; Path=/; Max-Age=660; HttpOnly; SameSite=Lax$`, a.header.Get("Set-Cookie"))
	require.Equal(t, a.header.Get("Set-Cookie"), b.get(s.url+"/auth/login").header.Get("Set-Cookie"), "logins in several tabs share it")
	secure, err := external.New(external.Config{
		Store: s.store, Sessions: s.sessions, PublicURL: "https://hub.example.com", Logins: true,
	})
	require.NoError(t, err)
	defer secure.Close()
	handler, err := api.New(api.Config{}, secure.Routes()...)
	require.NoError(t, err)
	w := serve(handler, http.MethodGet, "/auth/login")
	require.Regexp(t, `^__Host-hub_login=[0-9a-f]{64}; Path=/; Max-Age=660; HttpOnly; Secure; SameSite=Lax$`, w.Header().Get("Set-Cookie"))
}

func TestStartsAreLimited(t *testing.T) {
	s := onSQLite(t, nil)
	s.register("acme", newStandIn(s))
	for range 1200 {
		_, _, err := s.service.StartLogin(t.Context(), api.Caller{RemoteIP: "2001:db8::1"}, external.LoginInput{Org: "none"})
		require.ErrorIs(t, err, wire.NotFound)
	}
	_, _, err := s.service.StartLogin(t.Context(), api.Caller{RemoteIP: "2001:db8:0:1::2"}, external.LoginInput{})
	require.ErrorIs(t, err, wire.RateLimited)
	_, _, err = s.service.StartLogin(t.Context(), api.Caller{RemoteIP: "2001:db9::2"}, external.LoginInput{})
	require.NoError(t, err)
	s.wait(time.Minute)
	_, _, err = s.service.StartLogin(t.Context(), api.Caller{RemoteIP: "2001:db8::2"}, external.LoginInput{})
	require.NoError(t, err)
}
