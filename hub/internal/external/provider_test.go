package external_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/external/externaltest"
	"github.com/seed93082962/agenthost/hub/wire"
)

var (
	formAction = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)
	inputField = regexp.MustCompile(`<input[^>]* name="([^"]+)"[^>]*>`)
	inputValue = regexp.MustCompile(` value="([^"]*)"`)
)

// visit follows redirects and submits the forms of the provider, until it is at an address of the
// hub, whose response it returns.
func (b *browser) visit(at, hub, user string) answer {
	b.t.Helper()
	a := b.get(at)
	for range 20 {
		base, err := url.Parse(at)
		require.NoError(b.t, err)
		if strings.HasPrefix(at, hub) {
			return a
		}
		if to := a.header.Get("Location"); to != "" {
			next, err := base.Parse(to)
			require.NoError(b.t, err)
			at = next.String()
			a = b.get(at)
			continue
		}
		require.Equal(b.t, http.StatusOK, a.status, a.text)
		form := formAction.FindStringSubmatch(a.text)
		if form == nil {
			return a
		}
		values := url.Values{}
		for _, field := range inputField.FindAllStringSubmatch(a.text, -1) {
			value := inputValue.FindStringSubmatch(field[0])
			if value != nil {
				values.Set(field[1], html.UnescapeString(value[1]))
			}
		}
		if strings.Contains(a.text, `name="login"`) {
			values.Set("login", user)
			values.Set("password", "any")
		}
		if strings.Contains(a.text, `name="logout"`) {
			values.Set("logout", "yes")
		}
		next, err := base.Parse(html.UnescapeString(form[1]))
		require.NoError(b.t, err)
		at = next.String()
		a = b.send(http.MethodPost, at, values.Encode())
	}
	require.Fail(b.t, "the login does not end", a.text)
	return a
}

// A browser signs in with a certified provider, whose ID tokens have no names: the userinfo has
// them. Then the provider signs the user out.
func TestOpenIDProvider(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		issuer := externaltest.Provider(t, s.url)
		s.ops("POST", "", object{"org": "acme", "clientId": "hub", "clientSecret": "the secret of the hub + &%", "issuer": issuer}).want(http.StatusCreated)
		b := newBrowser(t)
		body := b.visit(b.start(s.url, "org=acme").String(), s.url, "ada").want(http.StatusOK)
		require.Equal(t, "ada", body["user"].(object)["username"])
		require.Equal(t, "ada of the provider", body["user"].(object)["display_name"])
		b.token = body["access_token"].(string)
		require.Equal(t, "ada@example.com", b.get(s.url + "/auth/userinfo").want(http.StatusOK)["email"])

		again := b.visit(b.start(s.url, "org=acme").String(), s.url, "").want(http.StatusOK) // the provider knows the browser
		require.Equal(t, body["user"], again["user"])
		bob := newBrowser(t)
		other := bob.visit(bob.start(s.url, "org=acme").String(), s.url, "bob").want(http.StatusOK)
		require.NotEqual(t, body["user"].(object)["id"], other["user"].(object)["id"])
		bob.token = other["access_token"].(string)

		b.visit(issuer+"/session/end", s.url, "")
		b.get(s.url+"/auth/userinfo").refused(http.StatusUnauthorized, wire.TokenRevoked)
		bob.get(s.url + "/auth/userinfo").want(http.StatusOK)
	})
}
