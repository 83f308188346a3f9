package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/internal/external/externaltest"
)

// markup is a name that would run scripts and load images if a page did not escape it.
const markup = `<img src=http://127.0.0.1:1/x onerror=alert(1)><script>alert(2)</script>"'&lt;`

// signIn signs a user in on the page that is open.
func (b *tab) signIn(name, secret string) {
	b.t.Helper()
	b.fill("input[name=username]", name)
	b.fill("input[name=password]", secret)
	b.click("form button.primary")
}

// The first admin registers with the link of the hub, and invites a member, who registers with
// another link, signs out and in.
func TestFromTheFirstAdminToAMember(t *testing.T) {
	t.Parallel()
	s := serve(t)
	admin := newTab(t)
	admin.open(s.url + "/")
	admin.see("This hub has no users yet")
	admin.fits()
	admin.open(s.url + "/console/register#setup=" + setupToken)
	admin.see("You are creating the first account of this hub. It is an administrator.")
	require.Empty(t, eval[string](admin, "location.hash"), "the token is not in the address and the history")
	admin.fill("input[name=password]", "short")
	admin.click("form button.primary")
	require.Equal(t, "password", eval[string](admin, `document.querySelector("input:invalid").name`), "the browser checks the length")
	admin.fill("input[name=password]", "password")
	admin.click("form button.primary")
	admin.see("most common passwords")
	require.Equal(t, "password", eval[string](admin, "document.activeElement.name"), "the cursor is in the wrong field")
	admin.fits()
	admin.fill("input[name=password]", password)
	admin.click("form button.primary")
	admin.see("First steps")
	admin.fits()
	admin.open(s.url + "/console/account/tokens")
	admin.see("There are no tokens.")
	admin.fill("input[name=name]", "my computer")
	admin.click("form button.primary")
	admin.see("Copy the token now")
	admin.see("cli_")
	admin.fits()
	admin.open(s.url + "/console/users")
	admin.click(".actions .primary")
	admin.see("works once")
	admin.fits()
	admin.click("dialog form button.primary")
	admin.see("Send this link to one person")
	admin.fits()
	link := eval[string](admin, `document.querySelector("dialog output").textContent`)

	member := newTab(t)
	member.open(link)
	member.see("Your role: Member.")
	member.fits()
	member.fill("input[name=username]", "a b")
	member.fill("input[name=password]", password)
	member.click("form button.primary")
	member.see("must ")
	member.fill("input[name=username]", "admin")
	member.click("form button.primary")
	member.see("The username is taken")
	member.fill("input[name=username]", "mia")
	member.fill("input[name=display_name]", markup)
	member.click("form button.primary")
	member.see(markup)
	require.NotContains(t, member.text(), "Audit log", "which members cannot see")
	member.fits()
	member.click("button.user")
	member.see("mia, Member of default")
	member.click(".menu .items button")
	member.see("Sign in to agenthost")
	member.signIn("mia", "another one")
	member.see("The username or the password is incorrect")
	member.fits()
	member.fill("input[name=password]", password)
	member.click("form button.primary")
	member.see("Chat")

	late := newTab(t)
	late.open(link)
	late.see("This invitation is not valid")
	late.fits()
	for _, b := range []*tab{admin, member, late} {
		b.clean(s.url)
	}
}

// A user whose password an admin set chooses another one before anything else. The hub is not at
// the root of its server.
func TestThePasswordOfAnAdminIsChanged(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *hub.Config) { cfg.PublicURL += "/below/hub" })
	root := s.setUp()
	const first = "a first password of some length"
	ada := map[string]string{"username": "ada", "password": first, "role": "maintainer"}
	s.call("POST", "/api/v1/admin/users", root, ada, http.StatusCreated)
	b := newTab(t)
	b.open(s.url + "/console/account")
	b.signIn("ada", first)
	b.see("Your password was set by an administrator.")
	b.fits()
	b.fill("input[name=new_password]", first)
	b.click("form button.primary")
	b.see("must differ")
	b.fill("input[name=new_password]", password)
	b.click("form button.primary")
	b.see("This session")
	b.click("a[href$=tokens]")
	b.see("There are no tokens.")
	b.open(s.url + "/console/account")
	b.see("This session")
	b.clean(strings.TrimSuffix(s.url, "/below/hub"))
}

// A page loads its scripts at another address than the public one too, and no script from another
// path of the hub, where an agent's runtime could serve one.
func TestScriptsAreThoseOfTheConsole(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		address := strings.Replace(s.url, "127.0.0.1", host, 1)
		b := newTab(t)
		b.open(address + "/console/register")
		b.see("agenthost")
		b.clean(address)
		_ = eval[bool](b, `(() => {
			const policy = trustedTypes.createPolicy("test", { createScriptURL: (url) => url })
			const script = document.createElement("script")
			script.onerror = () => { window.blocked = true }
			script.src = policy.createScriptURL("/runtime/demo/script.js")
			document.head.append(script)
			return true
		})()`)
		b.wait("window.blocked === true")
		require.Contains(t, strings.Join(b.found(), "\n"), "Content Security Policy")
	}
}

// A script that gets into a page does not run.
func TestThePolicyBlocksScripts(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.setUp()
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
	b.see("Your role: Maintainer.")
	s.advance.Store(int64(8 * 24 * time.Hour))
	b.fill("input[name=username]", "mia")
	b.fill("input[name=password]", password)
	b.click("form button.primary")
	b.see("ask for a new one")
	b.open(link)
	b.see("This invitation is not valid")
	b.open(s.url + "/console/register")
	b.see("Open the link of your invitation")
	b.open(s.url + "/console/register#setup=" + setupToken)
	b.see("This hub is already set up")
	b.open(s.url + "/console/register#token=" + markup)
	b.see("This invitation is not valid")
	b.clean(s.url)
}

// atProvider signs ada in with the forms of the provider.
func (b *tab) atProvider() {
	b.t.Helper()
	b.fill("input[name=login]", "ada")
	b.fill("input[name=password]", "any")
	b.click("button[type=submit]")
	b.see("Authorize")
	b.click("button[type=submit]")
}

// A user of external mode signs in at a certified OpenID provider, with its forms.
func TestSignInWithAnIdentityProvider(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *hub.Config) { cfg.External = true })
	provider := externaltest.Provider(t, s.url)
	client := map[string]string{"org": "acme", "clientId": "hub", "clientSecret": "the secret of the hub + &%", "issuer": provider}
	s.call("POST", "/api/v1/ops/tenant-clients", "", client, http.StatusCreated)
	b := newTab(t)
	b.open(s.url + "/console/register#token=x")
	b.see("Users of this hub sign in with their identity provider.")
	b.open(s.url + "/console/account")
	b.see("You sign in with the identity provider of your organization.")
	b.fits()
	b.fill("input[name=org]", "unknown")
	b.click("form button.primary")
	b.see("The organization is not registered.")
	b.fits()
	b.fill("input[name=org]", " acme ")
	b.click("form button.primary")
	b.atProvider()
	b.see("This session")
	b.see("acme")
	require.Empty(t, eval[string](b, "location.hash"))
	require.Equal(t, "/console/account", eval[string](b, "location.pathname"), "the page that the user wanted")
	b.fits()
	b.clean(s.url, provider)
	client["org"] = "evil"
	s.call("POST", "/api/v1/ops/tenant-clients", "", client, http.StatusCreated)
	b.do(chromedp.Evaluate[chromedp.Void](`location.assign("/auth/login?org=evil&return_to=/console/login")`)) // as a link in an answer
	b.wait(`document.body !== null && /Authorize|Replace the session/.test(document.body.innerText)`)
	if strings.Contains(b.text(), "Authorize") {
		b.click("button[type=submit]")
	}
	b.see("(acme). Continue only if you started a login as ada (evil)")
	b.click("dialog .plain")
	b.wait(`location.pathname === "/console"`)
	b.open(s.url + "/console/account")
	b.see("acme")
	other := newTab(t)
	other.open(s.url + "/console/cli/54321/" + strings.Repeat("A", 43))
	other.fill("input[name=org]", "acme")
	other.click("form button.primary")
	other.atProvider()
	other.see("Sign agenthost in?")
	other.clean(s.url, provider)
	failed := newTab(t)
	failed.open(s.url + "/console/login#error=account_disabled")
	failed.see("Your account is disabled: ask an administrator.")
	failed.open(s.url + "/console/login#error=" + markup)
	failed.see("The login failed (<img")
	failed.open(s.url + "/console/login#code=unknown")
	failed.see("The code is unknown")
	failed.clean(s.url)
}
