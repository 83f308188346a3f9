package console_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/rbac"
)

// The console has no form for users of the program that contains the hub.
func TestUsersOfTheProgram(t *testing.T) {
	t.Parallel()
	for name, external := range map[string]bool{"builtin": false, "external": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(cfg *hub.Config) {
				cfg.External = external
				cfg.Authenticate = func(r *http.Request) (*hub.Caller, error) {
					cookie, err := r.Cookie("program")
					if err != nil {
						return nil, nil //nolint:nilerr // the hub authenticates the request
					}
					return &hub.Caller{UserID: cookie.Value, UserName: "Ada of the program", RoleNow: rbac.Admin}, nil
				}
			})
			mode := s.call("GET", "/auth/mode", "", nil, http.StatusOK)
			require.Equal(t, true, mode["program"])
			b := newTab(t)
			b.open(s.url + "/console/tools")
			b.see("Sign in at your program")
			require.False(t, eval[bool](b, `document.querySelector("input") !== null`))
			b.accessible("the sign-in at a program")
			b.fits()
			b.click("button.primary")
			b.wait(`document.querySelector("[aria-busy]") === null`) // the button ignores another click before
			b.see("Sign in at your program")
			b.do(chromedp.Evaluate[chromedp.Void](`document.cookie = "program=7; path=/"`))
			b.click("button.primary")
			b.see("Functions that an agent can call")
			b.open(s.url + "/console/account")
			b.see("Ada of the program")
			b.do(chromedp.Evaluate[chromedp.Void](`document.cookie = "program=; path=/; max-age=0"`))
			// A request of the page finds that the program has ended the session.
			b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("a[href$='/console/tools']")?.click()`))
			b.see("Sign in at your program")
			b.click("button.quiet.small:not([lang])") // an account of the hub
			b.wait(`document.querySelector("input[name=` + map[bool]string{true: "org", false: "password"}[external] + `]") !== null`)
			b.clean(s.url)
		})
	}
}

// A page that is loaded often and in many tabs keeps its session, also while the token is rotated.
func TestPagesKeepTheirSession(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.setUp()
	b := newTab(t)
	b.open(s.url + "/console/tools")
	b.signIn("root", password)
	b.see("Functions that an agent can call")
	for range 12 { // more often than a program may refresh its session within a minute
		b.do(chromedp.Navigate(s.url + "/console/tools"))
		b.see("Functions that an agent can call")
	}
	tabs := []*tab{b}
	for range 4 {
		tabs = append(tabs, b.another())
	}
	for range 3 {
		s.advance.Add(int64(6 * time.Minute))
		for _, one := range tabs {
			one.do(chromedp.Evaluate[chromedp.Void]("setTimeout(() => location.assign(" + `"` + s.url + `/console/skills"))`))
		}
		for _, one := range tabs {
			one.see("There are no skills yet.")
		}
	}
	for _, one := range tabs {
		one.clean(s.url)
	}
}

// A limit, a fault of the hub or of a proxy, and a lost connection are not the end of a session:
// the page says so, and tries again by itself.
func TestPagesTryAgain(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.setUp()
	b := newTab(t)
	b.open(s.url + "/console/tools")
	b.signIn("root", password)
	b.see("Functions that an agent can call")
	for _, status := range []int32{http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusForbidden} {
		s.refused.Store(status)
		b.do(chromedp.Navigate(s.url + "/console/tools"))
		b.see("The page retries automatically.")
		s.refused.Store(0)
		b.see("Functions that an agent can call")
	}
	s.refused.Store(http.StatusServiceUnavailable)
	s.advance.Add(int64(16 * time.Minute))
	b.click(`a[href$="/skills"]`)
	b.wait(`document.querySelector("[role=alert]") !== null`)
	require.NotContains(t, b.text(), "Sign in to agenthost")
	s.refused.Store(0)
	b.click(".problem button")
	b.see("There are no skills yet.")
}

// A login that would replace the session of another user asks first, and nothing changes if the
// user keeps the session.
func TestALoginThatReplacesASession(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	invite := s.call("POST", "/api/v1/admin/invites", root, map[string]string{"role": "member"}, http.StatusCreated)["url"].(string)
	b := newTab(t)
	b.open(s.url + "/console/account")
	b.signIn("root", password)
	b.see("This session")
	other := b.another()
	other.open(invite)
	other.fill("input[name=username]", "mia")
	other.fill("input[name=password]", password)
	other.click("form button.primary")
	other.see("This browser is signed in as root (default). Continue only if you started a login as mia (default)")
	other.click("dialog .plain")
	other.see("First steps") // of root; another page is loaded in the meantime
	require.Equal(t, "/console", eval[string](other, "location.pathname"))
	for _, user := range s.call("GET", "/api/v1/admin/users", root, nil, http.StatusOK)["items"].([]any) {
		if mia := user.(map[string]any); mia["username"] == "mia" {
			require.Zero(t, s.call("GET", "/api/v1/admin/users/"+mia["id"].(string)+"/sessions", root, nil, http.StatusOK)["total"], "the session of the new account has ended")
		}
	}
	sign := `fetch("/console/session", { method: "POST", headers: { "Content-Type": "application/json" },
		body: JSON.stringify({ username: "%s", password: "` + password + `", replace: %s }) }).then((r) => r.status)`
	post := func(name, replace string) int {
		t.Helper()
		status, err := chromedp.Run(b.ctx, chromedp.Evaluate[int](fmt.Sprintf(sign, name, replace), chromedp.EvalAwaitPromise))
		require.NoError(t, err)
		return status
	}
	require.Equal(t, http.StatusConflict, post("mia", "false"))
	require.Equal(t, http.StatusConflict, post("nobody", "false"), "whoever exists")
	require.Equal(t, http.StatusOK, post("ROOT", "false"), "the same user")
	require.Equal(t, http.StatusOK, post("mia", "true"))
	b.open(s.url + "/console/account")
	b.see("mia")
	require.Equal(t, http.StatusConflict, post("root", "false"))
}

// A page continues the session of a new account: the log of a new hub begins with the setup, and
// has no sign-out and no second sign-in.
func TestTheLogBeginsWithTheSetup(t *testing.T) {
	t.Parallel()
	s := serve(t)
	register := func(link, name string) *tab {
		b := newTab(t)
		b.open(link)
		b.fill("input[name=username]", name)
		b.fill("input[name=password]", password)
		b.click("form button.primary")
		b.see("root")
		return b
	}
	log := func(b *tab) []string {
		b.visit("/audit")
		return eval[[]string](b, `[...document.querySelectorAll(".table td > code")].map((e) => e.textContent)`)
	}
	admin := register(s.url+"/console/register#setup="+setupToken, "root")
	require.Equal(t, []string{"auth.setup"}, log(admin))
	require.Empty(t, eval[string](admin, "document.cookie"), "scripts cannot read the session")
	admin.open(s.url + "/console/account")
	admin.see("This session")
	s.advance.Add(int64(16 * time.Minute)) // the access token has expired
	admin.visit("/users")
	admin.click(".actions .primary")
	admin.click("dialog form button.primary")
	admin.see("Send this link to one person")
	register(eval[string](admin, `document.querySelector("dialog output").textContent`), "root-2").clean(s.url)
	admin.open(s.url + "/console/account")
	admin.see("This session")
	require.Equal(t, []string{"auth.register", "invite.create", "auth.setup"}, log(admin))
	admin.clean(s.url)
}

// Browsers get a page at every address.
func TestBrowsersGetPages(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *hub.Config) { cfg.PublicURL += "/below" })
	s.setUp()
	b := newTab(t)
	b.open(s.url + "/console/")
	b.see("Sign in to agenthost")
	require.Equal(t, s.url+"/console", eval[string](b, "location.href"))
	b.open(s.url + "/console/login/")
	b.see("Sign in to agenthost")
	b.open(s.url + "/docs/")
	b.wait(`location.pathname === "/below/docs"`)
	for _, path := range []string{"/console/a/b/c/d", "/console/a/b/c/d/", "/consol", "/docs/a", "/console//", "/api/v1/nothing"} {
		res, body := s.get(path, http.Header{"Accept": {"text/html,application/xhtml+xml,*/*;q=0.8"}})
		require.Equal(t, http.StatusNotFound, res.StatusCode, path)
		require.Equal(t, "text/html; charset=utf-8", res.Header.Get("Content-Type"))
		require.Contains(t, body, "no page at this address")
		res, body = s.get(path, http.Header{"Accept": {"application/json"}})
		require.Equal(t, http.StatusNotFound, res.StatusCode)
		require.Contains(t, body, "not_found")
	}
}
