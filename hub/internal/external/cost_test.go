package external_test

import (
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/external"
	"github.com/seed93082962/agenthost/hub/wire"
)

// publishes makes the provider publish these keys.
func (p *standIn) publishes(keys ...jose.JSONWebKey) {
	p.with(func() {
		p.onKeys = func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, jose.JSONWebKeySet{Keys: keys}) }
	})
}

// checks returns how many signatures the call verified.
func (s *site) checks(call func()) int {
	before := external.Checks(s.service)
	call()
	return int(external.Checks(s.service) - before)
}

// A client without a credential sends logout tokens. The work of each is bounded, whatever the
// provider publishes.
func TestSignaturesOfALogout(t *testing.T) {
	var foreign [100]*ecdsa.PrivateKey
	for i := range foreign {
		foreign[i] = ecKey(t)
	}
	named := func(id func(int) string) (keys []jose.JSONWebKey) {
		for i, key := range foreign[:99] {
			keys = append(keys, jose.JSONWebKey{Key: key.Public(), KeyID: id(i)})
		}
		return keys
	}
	for name, row := range map[string]struct {
		keys []jose.JSONWebKey
		kid  string // of the token
		most int    // signatures for a token that none of the keys signed
	}{
		"no key has an id":             {named(func(int) string { return "" }), "1", 5},
		"neither has the token":        {named(func(int) string { return "" }), "", 5},
		"all keys have one id":         {named(func(int) string { return "1" }), "1", 1},
		"each key has an id":           {named(func(i int) string { return fmt.Sprint(i) }), "1", 1},
		"the token has none":           {named(func(i int) string { return fmt.Sprint(i) }), "", 5},
		"a key that is not among them": {named(func(i int) string { return fmt.Sprint(i) }), "x", 0},
		"a key beyond the limit":       {named(func(i int) string { return fmt.Sprint(i) }), "50", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := onSQLite(t, nil)
			p := newStandIn(s)
			p.publishes(row.keys...)
			p.with(func() {
				p.onDiscover = func(d object) { d["id_token_signing_alg_values_supported"] = []string{"ES256"} }
			})
			for i := range 30 { // organizations with one client
				s.register(fmt.Sprint("acme", i), p, object{"clientId": "hub-acme"})
			}
			send := func() {
				s.backchannel(s.url, signed(t, foreign[99], row.kid, nil, p.logoutClaims())).refused(http.StatusBadRequest, wire.InvalidRequest)
			}
			require.LessOrEqual(t, s.checks(send), row.most)
			require.LessOrEqual(t, s.checks(send), row.most, "the keys are not read again: there is no second pass")
			require.Equal(t, 1, p.calls["/keys"])
			s.wait(11 * time.Second)
			require.LessOrEqual(t, s.checks(send), 2*row.most)
			require.Equal(t, 2, p.calls["/keys"])
		})
	}
}

// A token is verified once, for all organizations with its client, and once for each certificate.
func TestLogoutOfManyOrganizations(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	var browsers []*browser
	for i := range 10 {
		org := fmt.Sprint("acme", i)
		more := object{"clientId": "hub", "clientSecret": "x"}
		if i > 6 {
			more["cert"] = publicPEM(t, rsaKey())
		}
		s.register(org, p, more)
		b := newBrowser(t)
		b.enter(s.url, org)
		browsers = append(browsers, b)
	}
	broken, err := s.db.Write().ExecContext(t.Context(), `UPDATE tenant_clients SET cert_enc = client_secret_enc WHERE org = 'acme0'`)
	require.NoError(t, err)
	n, err := broken.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	claims := p.logoutClaims()
	claims["aud"] = "hub"
	require.Equal(t, 2, s.checks(func() { require.Equal(t, 200, s.backchannel(s.url, signed(t, rsaKey(), "1", nil, claims)).status) }))
	for i, b := range browsers { // a certificate that cannot be opened stops only the logout of its organization
		want := http.StatusUnauthorized
		if i == 0 {
			want = http.StatusOK
		}
		require.Equal(t, want, b.get(s.url+"/auth/userinfo").status, i)
	}
}

// A provider that fails is not asked for each token: after a failure there is a pause, which grows.
func TestFailuresOfAProviderAreRemembered(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	s.register("acme", p)
	fails := func(path string) {
		t.Helper()
		before, began := p.calls[path], time.Now()
		for range 200 { // 20 s of the clock: requests after 0, 1, 3, 7 and 15 s
			_ = s.service.BackchannelLogout(t.Context(), api.Caller{}, signed(t, ecKey(t), "1", nil, p.logoutClaims()))
			s.wait(100 * time.Millisecond)
		}
		require.LessOrEqual(t, p.calls[path], before+6+int(time.Since(began)/time.Second))
		require.Greater(t, p.calls[path], before+2)
		s.wait(time.Minute)
	}
	p.with(func() { p.onDiscover = func(d object) { d["issuer"] = "https://evil.example.com" } })
	fails("/.well-known/openid-configuration")
	p.with(func() {
		p.onDiscover = nil
		p.onKeys = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	})
	fails("/keys")
	p.with(func() { p.onKeys = nil })
	newBrowser(t).enter(s.url, "acme")
}

// Of one network, 1,200 logout tokens a minute are verified, or 100 that are rejected.
func TestLogoutsOfANetworkAreLimited(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	s.register("acme", p)
	from := api.Caller{RemoteIP: "192.0.2.1"}
	for range 150 {
		require.NoError(t, s.service.BackchannelLogout(t.Context(), from, signed(t, rsaKey(), "1", nil, p.logoutClaims())))
	}
	junk, rejected := signed(t, ecKey(t), "1", nil, p.logoutClaims()), 0
	var err error
	for ; rejected < 200; rejected++ {
		if err = s.service.BackchannelLogout(t.Context(), from, junk); errors.Is(err, wire.RateLimited) {
			break
		}
		require.ErrorIs(t, err, wire.InvalidRequest)
	}
	require.LessOrEqual(t, rejected, 100)
	require.Zero(t, s.checks(func() { _ = s.service.BackchannelLogout(t.Context(), from, junk) }))
	require.NoError(t, s.service.BackchannelLogout(t.Context(), api.Caller{RemoteIP: "198.51.100.1"}, signed(t, rsaKey(), "1", nil, p.logoutClaims())))
	s.wait(time.Minute)
	require.NoError(t, s.service.BackchannelLogout(t.Context(), from, signed(t, rsaKey(), "1", nil, p.logoutClaims())))
}

// failLogins lets 100 logins from the network of the tests fail.
func (s *site) failLogins() {
	s.t.Helper()
	attempt, err := s.sessions.StartExternal(s.t.Context(), api.Caller{RemoteIP: "127.0.0.1"}, "acme", "")
	require.NoError(s.t, err)
	for range 100 {
		require.ErrorIs(s.t, s.sessions.RejectExternal(s.t.Context(), attempt, "code_rejected", code.InvalidCredentials), code.InvalidCredentials)
	}
}

// After 100 failed logins of a network, its provider is not called.
func TestFailedLoginsOfANetwork(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("acme", p)
		b := newBrowser(t)
		back := b.get(b.start(s.url, "org=acme").String()).location().String()
		s.failLogins()
		b.get(back).refused(http.StatusTooManyRequests, wire.RateLimited)
		require.Zero(t, p.calls["/token"])
		s.wait(16 * time.Minute)
		newBrowser(t).enter(s.url, "acme")
	})
}

// A guest at the same address who starts logins does not keep out a browser in which a user of the
// organization has signed in. It has a budget of its own.
func TestStartsOfOthers(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("acme", p)
		s.register("beta", p)
		known := newBrowser(t)
		known.enter(s.url, "acme")
		start := func(b *browser, org string) int { return b.get(s.url + "/auth/login?org=" + org).status }
		exhaust := func() {
			for range 1200 {
				_, _, err := s.service.StartLogin(t.Context(), api.Caller{RemoteIP: "127.0.0.1"}, external.LoginInput{Org: "acme"})
				if errors.Is(err, wire.RateLimited) {
					return
				}
				require.NoError(t, err)
			}
		}
		exhaust()
		require.Equal(t, http.StatusTooManyRequests, start(newBrowser(t), "acme"))
		require.Equal(t, http.StatusTooManyRequests, start(known, "beta")) // of another organization
		known.enter(s.url, "acme")
		known.enter(s.url, "")

		// The budget of a device has an end, and each has its own.
		s.wait(2 * time.Minute)
		other := newBrowser(t)
		other.enter(s.url, "acme")
		exhaust()
		for range 1200 {
			if start(known, "acme") == http.StatusTooManyRequests {
				break
			}
		}
		require.Equal(t, http.StatusTooManyRequests, start(known, "acme"))
		other.enter(s.url, "acme")
	})
}

// Failures of a guest at the same address do not lock out a browser in which a user of the
// organization has signed in. It has a budget of its own.
func TestFailedLoginsOfOthers(t *testing.T) {
	each(t, func(t *testing.T, s *site) {
		p := newStandIn(s)
		s.register("acme", p)
		s.register("beta", p)
		known := newBrowser(t)
		known.enter(s.url, "acme")
		s.failLogins()
		known.enter(s.url, "acme")
		newBrowser(t).login(s.url, "acme").refused(http.StatusTooManyRequests, wire.RateLimited)
		known.login(s.url, "beta").refused(http.StatusTooManyRequests, wire.RateLimited) // of another organization
		failed := len(s.log("system"))
		p.with(func() { p.onToken = func(c object) { c["nonce"] = "x" } })
		for range 10 {
			known.login(s.url, "acme").refused(http.StatusUnauthorized, code.InvalidCredentials)
		}
		known.login(s.url, "acme").refused(http.StatusTooManyRequests, wire.RateLimited)
		require.Len(t, s.log("system"), failed+10)
		p.with(func() { p.onToken = nil })
		s.wait(16 * time.Minute)
		s.failLogins()
		known.enter(s.url, "acme")
	})
}

// Names of claims are exact, and each occurs once in its object.
func TestExactClaims(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	s.register("acme", p)
	b := newBrowser(t)
	b.enter(s.url, "acme")
	payload := func(claims object, edit func(string) string) string {
		text, err := json.Marshal(claims)
		require.NoError(t, err)
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: rsaKey()}, nil)
		require.NoError(t, err)
		jws, err := signer.Sign([]byte(edit(string(text))))
		require.NoError(t, err)
		raw, err := jws.CompactSerialize()
		require.NoError(t, err)
		return raw
	}
	rename := func(from, to string) func(string) string {
		return func(s string) string { return strings.Replace(s, `"`+from+`":`, `"`+to+`":`, 1) }
	}
	add := func(member string) func(string) string {
		return func(s string) string { return "{" + member + "," + s[1:] }
	}
	for name, edit := range map[string]func(string) string{
		"Aud": rename("aud", "Aud"), "ISS": rename("iss", "ISS"), "Exp": rename("exp", "Exp"), "IAT": rename("iat", "IAT"), "ſub": rename("sub", "\u017fub"),
		"two audiences": add(`"aud":"hub-beta"`), "two issuers": add(`"iss":"https://evil.example.com"`), "two subjects": add(`"sub":"2"`),
		"an escaped second subject": add(`"s\u0075b":"2"`), "a second name inside": add(`"address":{"a":1,"a":2}`), "in a list": add(`"x":[{"a":1,"a":2}]`),
		"deep": add(`"x":` + strings.Repeat("[", 50) + strings.Repeat("]", 50)), "trailing": func(s string) string { return s + "{}" },
	} {
		t.Run(name, func(t *testing.T) {
			p.with(func() { p.onSign = func(c object) string { return payload(c, edit) } })
			newBrowser(t).login(s.url, "acme").refused(http.StatusUnauthorized, code.InvalidCredentials)
			s.backchannel(s.url, payload(p.logoutClaims(), edit)).refused(http.StatusBadRequest, wire.InvalidRequest)
		})
	}
	b.get(s.url + "/auth/userinfo").want(http.StatusOK)
	p.with(func() {
		p.onSign = func(c object) string { return payload(c, add(`"Sub":"2","ISS":"x","x":{"a":[{"a":{"a":1}}]}`)) }
	})
	newBrowser(t).enter(s.url, "acme") // other names than those of the claims
	for _, body := range []string{
		`{"org":"acme","org":"beta","clientId":"c","clientSecret":"s","issuer":"https://a.example.com"}`, `{"Org":"acme","clientId":"c"}`,
		`{"org":"acme","clientid":"c"}`, `{"org":"acme","clientId":"c","Issuer":"https://a.example.com","clientSecret":"x"}`, `{"org":"acme","clientId":"c","ADOPT":true}`,
		`{"org":"acme","clientId":"c","requiredClaim":{"Name":"a","values":["b"]}}`, `{"org":"acme","clientId":"c","roleClaim":{"name":"a","map":{"b":"admin","b":"member"}}}`,
	} {
		s.ops("POST", "", json.RawMessage(body)).refused(http.StatusBadRequest, wire.InvalidRequest)
	}
	s.ops("POST", "", json.RawMessage(`{"org":"acme","clientId":"hub-acme","unknown":1}`)).want(http.StatusOK)
}
