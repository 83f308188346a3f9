package console_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/external/externaltest"
	"github.com/seed93082962/agenthost/hub/secret"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	setupToken = "a setup token of some length"
	password   = "correct horse battery"
	opsKey     = "an operations key of 32 characters"
)

// server is a hub on SQLite.
type server struct {
	t       *testing.T
	url     string
	advance atomic.Int64 // of the clock
}

func serve(t *testing.T, change ...func(*hub.Config)) *server {
	t.Helper()
	s := &server{t: t}
	front := httptest.NewUnstartedServer(nil)
	s.url = "http://" + front.Listener.Addr().String()
	cfg := hub.Config{
		DatabaseURL: "sqlite://" + filepath.Join(t.TempDir(), "hub.db"), EncryptionKeys: []string{secret.Generate()},
		SetupToken: setupToken, PublicURL: s.url, OpsKey: opsKey, Version: "1.2.3",
		Now: func() time.Time { return time.Now().Add(time.Duration(s.advance.Load())) },
	}
	for _, f := range change {
		f(&cfg)
	}
	h, err := hub.New(t.Context(), cfg)
	require.NoError(t, err)
	front.Config.Handler = h
	front.Start()
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		require.NoError(t, h.Close())
	})
	return s
}

// call sends a request with a bearer token, unless it is empty, and returns the body of the
// response.
func (s *server) call(method, path, token string, body any, want int) (result map[string]any) {
	s.t.Helper()
	data, err := json.Marshal(body)
	require.NoError(s.t, err)
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader(data))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Ops-Key", opsKey)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	require.Equal(s.t, want, res.StatusCode, path)
	_ = json.NewDecoder(res.Body).Decode(&result) // 204 has none
	return result
}

func (s *server) setUp() (token string) {
	s.t.Helper()
	account := map[string]string{"username": "root", "password": password, "setup_token": setupToken}
	return s.call("POST", "/auth/setup", "", account, http.StatusCreated)["access_token"].(string)
}

// markup is a name that would run scripts and load images if a page did not escape it.
const markup = `<img src=http://127.0.0.1:1/x onerror=alert(1)><script>alert(2)</script>"'&lt;`

// The first admin registers with the link of the hub, and invites a member, who registers with
// another link, signs out and in.
func TestFromTheFirstAdminToAMember(t *testing.T) {
	t.Parallel()
	s := serve(t)
	admin := newTab(t)
	admin.open(s.url + "/")
	admin.see("not set up: open the link")
	admin.open(s.url + "/console/login")
	admin.see("This hub has no user yet")
	admin.fits()
	admin.open(s.url + "/console/register#setup=" + setupToken)
	admin.see("You create the first account of this hub, an administrator.")
	admin.fill("#register input[name=password]", "short")
	admin.click("#register button")
	require.Equal(t, "password", eval[string](admin, `document.querySelector("#register input:invalid").name`), "the browser checks the length")
	admin.fill("#register input[name=password]", "password")
	admin.click("#register button")
	admin.see("Password ")
	require.Equal(t, "password", eval[string](admin, "document.activeElement.name"), "the cursor is in the wrong field")
	admin.fits()
	admin.fill("#register input[name=password]", password)
	admin.click("#register button")
	admin.see("You are signed in as admin, admin of the organization default.")
	require.Empty(t, eval[string](admin, "location.hash"), "the token is not in the address and the history")
	admin.click("#token-form button")
	admin.see("Store the token now")
	admin.click("#invite-form button")
	admin.see("Send this link to one person:")
	require.NotContains(t, admin.text(), "Welcome", "the heading is that of the account")
	admin.fits()
	link := eval[string](admin, `document.querySelector("#invite").textContent`)

	member := newTab(t)
	member.open(link)
	member.see("You were invited as member. The invitation ends on ")
	member.fits()
	member.fill("#register input[name=username]", "a b")
	member.fill("#register input[name=password]", password)
	member.click("#register button")
	member.see("Username ")
	member.fill("#register input[name=username]", "admin")
	member.click("#register button")
	member.see("The username is taken")
	member.fill("#register input[name=username]", "mia")
	member.fill("#register input[name=display_name]", markup)
	member.click("#register button")
	member.see("You are signed in as mia, member of the organization default.")
	member.see("A maintainer of your organization creates agents.")
	require.NotContains(t, member.text(), "Create a token", "which members cannot have")
	member.fits()
	member.click("#sign-out")
	member.see("Sign in to agenthost")
	member.fill("#password input[name=username]", "mia")
	member.fill("#password input[name=password]", "another one")
	member.click("#password button")
	member.see("The username or the password is incorrect.")
	member.fits()
	member.fill("#password input[name=password]", password)
	member.click("#password button")
	member.see("You are signed in as mia")

	late := newTab(t)
	late.open(link)
	late.see("This invitation is not valid")
	late.fits()
	for _, b := range []*tab{admin, member, late} {
		b.clean(s.url)
	}
}

// A user whose password an admin set chooses another one before anything else.
func TestThePasswordOfAnAdminIsChanged(t *testing.T) {
	t.Parallel()
	s := serve(t)
	root := s.setUp()
	const first = "a first password of some length"
	ada := map[string]string{"username": "ada", "password": first, "role": "maintainer"}
	s.call("POST", "/api/v1/admin/users", root, ada, http.StatusCreated)
	b := newTab(t)
	b.open(s.url + "/console/login")
	b.fill("#password input[name=username]", "ada")
	b.fill("#password input[name=password]", first)
	b.click("#password button")
	b.see("Your password was set by an administrator.")
	b.fits()
	b.fill("#new", first)
	b.click("#change-form button")
	b.see("New password ")
	b.fill("#new", password)
	b.click("#change-form button")
	b.see("You are signed in as ada, maintainer of the organization default.")
	require.NotContains(t, b.text(), "Role of the invited user", "which only admins may create")
	b.click("#sign-out")
	b.see("Sign in to agenthost")
	b.fill("#password input[name=username]", "ada")
	b.fill("#password input[name=password]", password)
	b.click("#password button")
	b.see("You are signed in as ada")
	b.clean(s.url)
}

// Names of others are text. A script that gets into a page does not run.
func TestNothingOfOthersRuns(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *hub.Config) { cfg.Version = markup })
	root := s.setUp()
	helper := map[string]string{"name": "helper", "title": markup, "providerId": "demo", "model": "demo"}
	s.call("POST", "/api/v1/admin/agents", root, helper, http.StatusCreated)
	b := newTab(t)
	b.open(s.url + "/")
	b.see(markup)
	b.open(s.url + "/console/login#error=" + markup)
	b.fill("#password input[name=username]", markup)
	b.fill("#password input[name=password]", password)
	b.click("#password button")
	b.see("The username or the password is incorrect.")
	b.fill("#password input[name=username]", "root")
	b.click("#password button")
	b.see(markup + " (helper)")
	b.fits()
	b.open(s.url + "/console/register#token=" + markup)
	b.see("This invitation is not valid")
	b.clean(s.url)

	for _, attack := range []string{
		`{ const s = document.createElement("script"); s.textContent = "alert(3)"; document.body.append(s) }`,
		`document.body.innerHTML = "<img src=x onerror=alert(4)>"`,
		`fetch("http://127.0.0.1:1/")`,
		`setTimeout("alert(5)")`,
	} {
		blocked := newTab(t)
		blocked.open(s.url + "/console/login")
		blocked.see("Sign in to agenthost")
		_ = eval[string](blocked, `(() => { try { `+attack+` } catch (e) { return "" + e } return "" })()`)
		require.Eventually(t, func() bool { return len(blocked.found()) > 0 }, patience, 10*time.Millisecond, "the policy permits %s", attack)
		for _, fault := range blocked.found() {
			require.NotContains(t, fault, "dialog", attack)
		}
	}
}

// An invitation ends after a week, also while its page is open.
func TestAnExpiredInvitation(t *testing.T) {
	t.Parallel()
	s := serve(t)
	link := s.call("POST", "/api/v1/admin/invites", s.setUp(), map[string]string{"role": "maintainer"}, http.StatusCreated)["url"].(string)
	b := newTab(t)
	b.open(link)
	b.see("You were invited as maintainer.")
	s.advance.Store(int64(8 * 24 * time.Hour))
	b.fill("#register input[name=username]", "mia")
	b.fill("#register input[name=password]", password)
	b.click("#register button")
	b.see("ask for a new one")
	b.open(link)
	b.see("This invitation is not valid")
	b.open(s.url + "/console/register")
	b.see("Open the link of your invitation")
	b.open(s.url + "/console/register#setup=" + setupToken)
	b.see("This hub is set up")
	b.clean(s.url)
}

// A user of external mode signs in at a certified OpenID provider, with its forms.
func TestSignInWithAnIdentityProvider(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *hub.Config) { cfg.External = true })
	provider := externaltest.Provider(t, s.url)
	client := map[string]string{"org": "acme", "clientId": "hub", "clientSecret": "the secret of the hub + &%", "issuer": provider}
	s.call("POST", "/api/v1/ops/tenant-clients", "", client, http.StatusCreated)
	b := newTab(t)
	b.open(s.url + "/")
	b.see("with the identity provider of the organization")
	b.open(s.url + "/console/register#token=x")
	b.see("Users of this hub sign in with their identity provider.")
	b.open(s.url + "/console/login")
	b.see("You sign in with the identity provider of your organization.")
	b.fits()
	b.fill("#org", "unknown")
	b.click("#provider button")
	b.see("The organization is not registered.")
	b.fits()
	b.fill("#org", " acme ")
	b.click("#provider button")
	b.fill("input[name=login]", "ada")
	b.fill("input[name=password]", "any")
	b.click("button[type=submit]")
	b.see("Authorize")
	b.click("button[type=submit]")
	b.see("You are signed in as ada, member of the organization acme.")
	require.Empty(t, eval[string](b, "location.hash"))
	b.fits()
	b.clean(s.url, provider)
	failed := newTab(t)
	failed.open(s.url + "/console/login#error=account_disabled")
	failed.see("Your account is disabled: ask an administrator.")
	failed.open(s.url + "/console/login#code=unknown")
	failed.fits()
	failed.clean(s.url)
}

// The start page and the documentation of both servers fit on a phone, closed and with everything
// open, and a link opens its target.
func TestStartPageAndDocumentation(t *testing.T) {
	t.Parallel()
	s := serve(t)
	rt, err := runtime.New(t.Context(), runtime.Config{Version: "1.2.3", Agents: []agent.Agent{
		{ID: "demo", Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}},
	}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	front := httptest.NewServer(rt)
	t.Cleanup(front.Close)
	for name, server := range map[string]string{"hub": s.url, "runtime": front.URL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTab(t)
			b.open(server + "/")
			b.see("agenthost " + name)
			b.see("1.2.3")
			b.fits()
			b.click(`a[href="docs"]`)
			b.see("first steps")
			b.fits()
			const link = `document.querySelector('details a[href^="#schema-"]')`
			target := eval[string](b, `(() => {
				const a = `+link+`
				for (let e = a; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true
				return a.hash
			})()`)
			const shown = `document.querySelector(%q).checkVisibility()`
			require.False(t, eval[bool](b, fmt.Sprintf(shown, target)))
			b.do(chromedp.Evaluate[chromedp.Void](link + ".click()"))
			require.Eventually(t, func() bool { return eval[bool](b, fmt.Sprintf(shown, target)) }, patience, 10*time.Millisecond, "the link opens nothing")
			b.do(chromedp.Evaluate[chromedp.Void](`for (const d of document.querySelectorAll("details")) d.open = true`))
			b.fits()
			b.clean(server)
		})
	}
}
