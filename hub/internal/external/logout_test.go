package external_test

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
)

const logoutEvent = "http://schemas.openid.net/event/backchannel-logout"

// logoutClaims are those of a valid logout token.
func (p *standIn) logoutClaims() object {
	return object{
		"iss": p.URL, "aud": "hub-acme", "iat": p.now().Unix(), "exp": p.now().Add(2 * time.Minute).Unix(), "jti": rand.Text(), "sub": "1",
		"events": object{logoutEvent: object{}},
	}
}

func (s *site) backchannel(hub, token string) answer {
	return newBrowser(s.t).send("POST", hub+"/auth/backchannel-logout", url.Values{"logout_token": {token}}.Encode())
}

func TestBackchannelLogout(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("acme", p)
		p.with(func() { p.user["sid"] = "session 1" })
		b := newBrowser(t)
		b.enter(s.url, "acme")
		p.with(func() { p.user["sid"] = "session 2" })
		second := newBrowser(t)
		second.enter(s.url, "acme")
		other := s.launch()
		second.get(other.url + "/auth/userinfo").want(http.StatusOK)

		out := p.logoutClaims()
		out["sid"] = "session 2"
		require.Equal(t, 200, s.backchannel(s.url, signed(t, rsaKey(), "1", object{"typ": "logout+jwt"}, out)).status)
		b.get(s.url + "/auth/userinfo").want(http.StatusOK)
		second.get(s.url+"/auth/userinfo").refused(http.StatusUnauthorized, wire.TokenRevoked)
		s.wait(2 * time.Second)
		second.get(other.url+"/auth/userinfo").refused(http.StatusUnauthorized, wire.TokenRevoked)

		raw := signed(t, rsaKey(), "1", nil, p.logoutClaims())
		require.Equal(t, 200, s.backchannel(s.url, raw).status)
		b.get(s.url+"/auth/userinfo").refused(http.StatusUnauthorized, wire.TokenRevoked)
		require.Contains(t, strings.Join(s.log("acme"), "\n"), `auth.backchannel_logout ada success`)

		// A token that is used again ends no later session.
		b.enter(s.url, "acme")
		require.Equal(t, 200, s.backchannel(s.url, raw).status)
		b.get(s.url + "/auth/userinfo").want(http.StatusOK)
		const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		last := len(raw) - 1 // its lowest bits have no meaning
		respelled := raw[:last] + string(digits[strings.IndexByte(digits, raw[last])|1])
		require.NotEqual(t, raw, respelled)
		require.Equal(t, 200, s.backchannel(s.url, respelled).status)
		b.get(s.url + "/auth/userinfo").want(http.StatusOK)

		// A session of which the provider did not name its own may be the one that ends.
		p.with(func() { delete(p.user, "sid") })
		b.enter(s.url, "acme")
		require.Equal(t, 200, s.backchannel(s.url, signed(t, rsaKey(), "1", nil, out)).status, "used")
		b.get(s.url + "/auth/userinfo").want(http.StatusOK)
		out["jti"] = rand.Text()
		require.Equal(t, 200, s.backchannel(s.url, signed(t, rsaKey(), "1", nil, out)).status)
		b.get(s.url+"/auth/userinfo").refused(http.StatusUnauthorized, wire.TokenRevoked)

		// A login that waits for its exchange ends too.
		at := b.start(s.url, "org=acme&return_to=/console/")
		handed := strings.TrimPrefix(b.get(b.get(at.String()).location().String()).location().Fragment, "code=")
		require.Equal(t, 200, s.backchannel(s.url, signed(t, rsaKey(), "1", nil, p.logoutClaims())).status)
		b.send("POST", s.url+"/auth/exchange", object{"code": handed}).refused(http.StatusUnauthorized, code.InvalidCredentials)
	})
}

func TestLogoutTokenFaults(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	s.register("acme", p)
	b := newBrowser(t)
	b.enter(s.url, "acme")
	idToken := ""
	p.with(func() { p.onResponse = func(_ http.ResponseWriter, raw string) bool { idToken = raw; return false } })
	b.enter(s.url, "acme")
	s.backchannel(s.url, idToken).refused(http.StatusBadRequest, wire.InvalidRequest)
	for name, change := range map[string]func(object){
		"no event":         func(c object) { delete(c, "events") },
		"another event":    func(c object) { c["events"] = object{"x": object{}} },
		"a list of events": func(c object) { c["events"] = []string{logoutEvent} },
		"a nonce":          func(c object) { c["nonce"] = "x" },
		"no identifier":    func(c object) { delete(c, "jti") },
		"no expiry":        func(c object) { delete(c, "exp") },
		"expired":          func(c object) { c["exp"] = time.Now().Add(-time.Minute).Unix() },
		"valid for a year": func(c object) { c["exp"] = time.Now().AddDate(1, 0, 0).Unix() },
		"in the future":    func(c object) { c["iat"] = time.Now().Add(time.Hour).Unix() },
		"another client":   func(c object) { c["aud"] = "hub-beta" },
		"another issuer":   func(c object) { c["iss"] = "https://evil.example.com" },
		"no subject":       func(c object) { delete(c, "sub") },
	} {
		t.Run(name, func(t *testing.T) {
			c := p.logoutClaims()
			change(c)
			s.backchannel(s.url, signed(t, rsaKey(), "1", nil, c)).refused(http.StatusBadRequest, wire.InvalidRequest)
		})
	}
	for _, raw := range []string{"", "x", "a.b.c", signed(t, ecKey(t), "1", nil, p.logoutClaims()), signed(t, []byte("k"), "1", nil, p.logoutClaims()), strings.Repeat("x", 9<<10)} {
		s.backchannel(s.url, raw).refused(http.StatusBadRequest, wire.InvalidRequest)
	}
	b.get(s.url + "/auth/userinfo").want(http.StatusOK)
	calls := p.calls["/keys"]
	for range 20 { // anyone can send them: the keys are not read for each
		s.backchannel(s.url, signed(t, ecKey(t), "7", nil, p.logoutClaims()))
	}
	require.LessOrEqual(t, p.calls["/keys"], calls+1)
}
