package external_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/external"
	"github.com/seed93082962/agenthost/hub/wire"
)

// silent makes a provider one that does not support RFC 9207.
func (p *standIn) silent() {
	p.with(func() {
		p.noIssuer = true
		p.onDiscover = func(d object) { delete(d, "authorization_response_iss_parameter_supported") }
	})
}

// A hostile provider sends the browser to the provider of another organization, with the state of
// its own login. It must not obtain the code, which the hub would send to its token endpoint.
func TestMixUp(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		acme, evil := newStandIn(s), newStandIn(s)
		acme.silent()
		evil.silent()
		s.register("acme", acme)
		s.register("evil", evil)
		for name, path := range map[string]string{
			"its own": "/auth/callback/acme", "encoded": "/auth/callback/%61cme", "in capitals": "/auth/callback/ACME",
			"of the global client": "/auth/callback", "of an unknown one": "/auth/callback/other",
		} {
			t.Run(name, func(t *testing.T) {
				victim := newBrowser(t)
				at := victim.start(s.url, "org=evil")
				require.Equal(t, s.url+"/auth/callback/evil", at.Query().Get("redirect_uri"))
				q := at.Query()
				q.Set("client_id", "hub-acme")
				q.Set("redirect_uri", s.url+path)
				back := victim.get(acme.URL + "/authorize?" + q.Encode()).location()
				victim.get(back.String()).refused(http.StatusUnauthorized, code.InvalidCredentials)
				require.Zero(t, evil.calls["/token"])
				require.Zero(t, acme.calls["/token"])
				victim.get(back.String()).refused(http.StatusBadRequest, wire.InvalidRequest) // the login is used up
			})
		}
		t.Run("a code of another organization", func(t *testing.T) {
			b := newBrowser(t)
			foreign := b.get(b.start(s.url, "org=acme").String()).location().Query().Get("code")
			back := b.get(b.start(s.url, "org=evil").String()).location()
			q := back.Query()
			q.Set("code", foreign)
			back.RawQuery = q.Encode()
			b.get(back.String()).refused(http.StatusUnauthorized, code.InvalidCredentials)
		})
		require.Contains(t, strings.Join(s.log("system"), "\n"), `auth.login_failed evil failure {"reason":"callback_mismatch"}`)
		newBrowser(t).enter(s.url, "acme")
		newBrowser(t).enter(s.url, "evil")
	})
}

// The global client and a registered client have different redirect URIs, also with one issuer and
// one client id.
func TestRedirectURIOfTheGlobalClient(t *testing.T) {
	var p *standIn
	s := onSQLite(t, func(s *site) {
		p = newStandIn(s)
		p.silent()
		s.global = external.GlobalClient{Issuer: p.URL, ClientID: "hub-default", ClientSecret: "x"}
	})
	at := func(b *browser, path, query string) answer {
		back := b.get(b.start(s.url, query).String()).location()
		back.Path = path
		return b.get(back.String())
	}
	b := newBrowser(t)
	require.Equal(t, s.url+"/auth/callback", b.start(s.url, "").Query().Get("redirect_uri"))
	at(b, "/auth/callback/default", "").refused(http.StatusUnauthorized, code.InvalidCredentials)
	at(b, "/auth/callback", "").want(http.StatusOK)
	back := b.get(b.start(s.url, "").String()).location()
	s.register("default", p) // during the login; its data belong to the same client
	b.get(back.String()).refused(http.StatusUnauthorized, code.InvalidCredentials)
	require.Equal(t, s.url+"/auth/callback/default", b.start(s.url, "").Query().Get("redirect_uri"))
	at(b, "/auth/callback", "").refused(http.StatusUnauthorized, code.InvalidCredentials)
	at(b, "/auth/callback/default", "").want(http.StatusOK)
}

// A login that another site started needs a confirmation, in the browser of the user.
func TestConfirmation(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	s.register("acme", p)
	s.register("evil", p)
	login := s.url + "/auth/login?org=acme&return_to=" + url.QueryEscape("/console/?a=b&c=d")
	started := func(b *browser, address string, headers ...string) bool {
		t.Helper()
		a := b.send(http.MethodGet, address, nil, append([]string{"Sec-Fetch-Site", ""}, headers...)...)
		if a.status == http.StatusFound {
			return true
		}
		require.Equal(t, http.StatusOK, a.status, a.text)
		require.Equal(t, "text/html; charset=utf-8", a.header.Get("Content-Type"))
		require.Contains(t, a.text, "Sign in to acme?")
		require.NotContains(t, a.text, "<script")
		return false
	}
	known := func() *browser {
		b := newBrowser(t)
		b.start(s.url, "org=acme")
		return b
	}
	for name, row := range map[string]struct {
		b       *browser
		headers []string
		started bool
	}{
		"a program":                         {newBrowser(t), nil, true},
		"typed":                             {known(), []string{"Sec-Fetch-Site", "none"}, true},
		"the console":                       {known(), []string{"Sec-Fetch-Site", "same-origin"}, true},
		"the console, in an old browser":    {known(), []string{"Referer", s.url + "/console/"}, true},
		"another site":                      {newBrowser(t), []string{"Sec-Fetch-Site", "cross-site"}, false},
		"another origin of the site":        {newBrowser(t), []string{"Sec-Fetch-Site", "same-site"}, false},
		"another value":                     {newBrowser(t), []string{"Sec-Fetch-Site", "x"}, false},
		"another site, in an old browser":   {newBrowser(t), []string{"Referer", "https://evil.example.com/"}, false},
		"a similar host":                    {newBrowser(t), []string{"Referer", s.url + ".evil.example.com/"}, false},
		"an old browser with a login":       {known(), nil, false},
		"a claim of the site to be the hub": {known(), []string{"Sec-Fetch-Site", "cross-site", "Referer", s.url + "/"}, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.started, started(row.b, login, row.headers...)) })
	}

	b := newBrowser(t)
	page := b.send(http.MethodGet, login, nil, "Sec-Fetch-Site", "cross-site").text
	require.Zero(t, p.calls["/authorize"])
	link := strings.ReplaceAll(page[strings.Index(page, `href="`)+6:strings.Index(page, `">Continue`)], "&amp;", "&")
	require.True(t, started(b, link), "an old browser continues")
	require.True(t, started(b, link, "Sec-Fetch-Site", "same-origin"))
	require.False(t, started(newBrowser(t), link, "Sec-Fetch-Site", "cross-site"), "the link belongs to the browser")
	require.False(t, started(known(), link, "Sec-Fetch-Site", "cross-site"))
	other := strings.Replace(link, "return_to=", "return_to=%2Fconsole%2Fother&x=", 1)
	require.False(t, started(b, other, "Sec-Fetch-Site", "cross-site"), "the link belongs to the login")
	b.send(http.MethodGet, s.url+"/auth/login?org=none", nil, "Sec-Fetch-Site", "cross-site").refused(http.StatusNotFound, wire.NotFound)
	b.send(http.MethodGet, s.url+"/auth/login?return_to=//x", nil, "Sec-Fetch-Site", "cross-site").refused(http.StatusBadRequest, wire.ValidationFailed)
}
