package external_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
)

// Each change of the ID token makes the login fail, and each login without one succeeds.
func TestIDTokenAttacks(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	s.register("acme", p)
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	set := func(name string, value any) func(object) {
		return func(c object) {
			if c[name] = value; value == nil {
				delete(c, name)
			}
		}
	}
	sign := func(key any, kid string, header object) func(object) string {
		return func(c object) string { return signed(t, key, kid, header, c) }
	}
	used := ""
	for name, row := range map[string]struct {
		claims func(object)
		sign   func(object) string
		ok     bool
	}{
		"unchanged":                     {ok: true},
		"wrong audience":                {claims: set("aud", "hub-beta")},
		"no audience":                   {claims: set("aud", nil)},
		"several audiences":             {claims: set("aud", []string{"hub-acme", "x"})},
		"several, authorized party":     {claims: func(c object) { c["aud"], c["azp"] = []string{"hub-acme", "x"}, "hub-acme" }, ok: true},
		"another authorized party":      {claims: set("azp", "x")},
		"wrong issuer":                  {claims: set("iss", "https://evil.example.com")},
		"issuer with a slash":           {claims: set("iss", p.URL+"/")},
		"expired":                       {claims: set("exp", time.Now().Add(-time.Minute).Unix())},
		"no expiry":                     {claims: set("exp", nil)},
		"issued in the future":          {claims: set("iat", time.Now().Add(2*time.Minute).Unix())},
		"issued in the next seconds":    {claims: set("iat", time.Now().Add(20*time.Second).Unix()), ok: true},
		"no time of issue":              {claims: set("iat", nil)},
		"not valid yet":                 {claims: set("nbf", time.Now().Add(2*time.Minute).Unix())},
		"no nonce":                      {claims: set("nonce", nil)},
		"nonce of another flow":         {claims: func(c object) { c["nonce"], used = used, c["nonce"].(string) }},
		"no subject":                    {claims: set("sub", nil)},
		"a number as subject":           {claims: set("sub", 7)},
		"a subject of 256":              {claims: set("sub", strings.Repeat("s", 256))},
		"a control character":           {claims: set("sub", "a\u0000b")},
		"a refresh token":               {claims: set("tokenType", "refresh-token")},
		"a refresh token, TokenType":    {claims: set("TokenType", "REFRESH")},
		"a refresh token, token_type":   {claims: set("token_type", []string{"refresh_token"})},
		"a refresh token, typ":          {claims: set("typ", "Refresh")},
		"an offline token":              {claims: set("typ", "Offline")},
		"an ID token of Keycloak":       {claims: set("typ", "ID"), ok: true},
		"an access token":               {sign: sign(rsaKey(), "1", object{"typ": "at+jwt"})},
		"a logout token":                {sign: sign(rsaKey(), "1", object{"typ": "logout+jwt"})},
		"wrong key":                     {sign: sign(foreign, "1", nil)},
		"unknown key":                   {sign: sign(foreign, "9", nil)},
		"without key id":                {sign: sign(rsaKey(), "", nil), ok: true},
		"key in the header":             {sign: sign(foreign, "1", object{"jwk": object{"kty": "RSA"}})},
		"critical header":               {sign: sign(rsaKey(), "1", object{"crit": []string{"x"}, "x": 1})},
		"alg HS256 with the public key": {sign: sign([]byte(publicPEM(t, rsaKey())), "1", nil)},
		"alg of another key type":       {sign: sign(ecKey(t), "1", nil)},
		"alg none": {sign: func(c object) string {
			payload, err := json.Marshal(c)
			require.NoError(t, err)
			return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
		}},
		"signature stripped": {sign: func(c object) string {
			raw := signed(t, rsaKey(), "1", nil, c)
			return raw[:strings.LastIndexByte(raw, '.')+1]
		}},
		"an escaped refresh token": {sign: func(c object) string {
			c["tokenType"] = "refresh-token"
			payload, err := json.Marshal(c)
			require.NoError(t, err)
			signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: rsaKey()}, nil)
			require.NoError(t, err)
			jws, err := signer.Sign(bytes.Replace(payload, []byte(`"refresh`), []byte(`"\u0072efresh`), 1))
			require.NoError(t, err)
			raw, err := jws.CompactSerialize()
			require.NoError(t, err)
			return raw
		}},
		"no token":  {sign: func(object) string { return "" }},
		"too large": {sign: func(c object) string { return strings.Repeat("a", 70<<10) }},
	} {
		t.Run(name, func(t *testing.T) {
			p.with(func() { p.onToken, p.onSign = row.claims, row.sign })
			a := newBrowser(t).login(s.url, "acme")
			if row.ok {
				a.want(http.StatusOK)
				return
			}
			a.refused(http.StatusUnauthorized, code.InvalidCredentials)
		})
	}
}

func TestRotatedKey(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	s.register("acme", p)
	newBrowser(t).enter(s.url, "acme")
	newBrowser(t).enter(s.url, "acme")
	require.Equal(t, 1, p.calls["/keys"])
	p.with(func() { p.key, p.kid = ecKey(t), "2" })
	s.wait(time.Second)
	newBrowser(t).enter(s.url, "acme")
	require.Equal(t, 2, p.calls["/keys"])
	former := p.key
	s.wait(16 * time.Minute)
	p.with(func() {
		p.key = ecKey(t)
		p.onSign = func(c object) string { return signed(t, former, "2", nil, c) }
	})
	newBrowser(t).login(s.url, "acme").refused(http.StatusUnauthorized, code.InvalidCredentials)
}

// A provider that does not publish its key, or whose token is none, is not asked for the keys at
// each login.
func TestKeysAreNotReadAtEachLogin(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	s.register("acme", p)
	newBrowser(t).enter(s.url, "acme")
	s.wait(time.Minute)
	p.with(func() { p.onSign = func(object) string { return "error: invalid grant" } })
	for range 5 {
		newBrowser(t).login(s.url, "acme").refused(http.StatusUnauthorized, code.InvalidCredentials)
	}
	require.Equal(t, 1, p.calls["/keys"])
	foreign := ecKey(t)
	p.with(func() { p.onSign = func(c object) string { return signed(t, foreign, "9", nil, c) } })
	began := time.Now()
	for range 10 {
		newBrowser(t).login(s.url, "acme").refused(http.StatusUnauthorized, code.InvalidCredentials)
	}
	require.LessOrEqual(t, p.calls["/keys"], 2+int(time.Since(began)/time.Second))
}

func TestCertificate(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	s.register("acme", p, object{"cert": publicPEM(t, rsaKey())})
	newBrowser(t).enter(s.url, "acme")
	require.Zero(t, p.calls["/keys"])
	p.with(func() { p.key = ecKey(t) })
	newBrowser(t).login(s.url, "acme").refused(http.StatusUnauthorized, code.InvalidCredentials)
}

func TestUserinfoCompletesTheToken(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	s.register("acme", p)
	p.with(func() {
		p.onToken = func(c object) {
			for _, name := range []string{"preferred_username", "name", "email"} {
				delete(c, name)
			}
		}
	})
	require.Equal(t, "ada", newBrowser(t).enter(s.url, "acme")["user"].(object)["username"])
	p.with(func() {
		thin := p.onToken
		p.onToken = func(c object) {
			thin(c)
			c["sub"] = "2"
		}
	})
	newBrowser(t).login(s.url, "acme").refused(http.StatusUnauthorized, code.InvalidCredentials)
}

// Casdoor's ID token is its access token, and errors have status 200.
func TestCasdoor(t *testing.T) {
	s := onSQLite(t, nil)
	p := newStandIn(s)
	p.casdoor = true
	p.secrets["hub-acme"] = "secret-acme"
	p.user = object{"sub": "u-1", "owner": "acme", "name": "ada", "displayName": "Ada L.", "email": "ada@example.com", "address": []string{}}
	s.register("acme", p, object{"provider": "casdoor"})
	body := newBrowser(t).enter(s.url, "acme")
	require.Equal(t, "ada", body["user"].(object)["username"])
	require.Equal(t, "Ada L.", body["user"].(object)["display_name"])
	for name, change := range map[string]func(){
		"owner of another organization": func() { p.onToken = func(c object) { c["owner"] = "beta" } },
		"owner in other letters":        func() { p.onToken = func(c object) { c["owner"] = "ACME" } },
		"no owner":                      func() { p.onToken = func(c object) { delete(c, "owner") } },
		"a list of owners":              func() { p.onToken = func(c object) { c["owner"] = []string{"acme"} } },
		"a refresh token":               func() { p.onToken = func(c object) { c["tokenType"] = "refresh-token" } },
		"a refresh token, TokenType":    func() { p.onToken = func(c object) { c["TokenType"] = "refresh-token" } },
		"token of another application":  func() { p.onToken = func(c object) { c["aud"] = []string{"app-built-in"} } },
		"an expired code, status 200": func() {
			p.onResponse = func(w http.ResponseWriter, _ string) bool {
				reply(w, 200, object{"error": "invalid_grant", "error_description": "authorization code has expired"})
				return true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p.with(func() { p.onToken, p.onResponse = nil, nil; change() })
			newBrowser(t).login(s.url, "acme").refused(http.StatusUnauthorized, code.InvalidCredentials)
		})
	}
	for name, response := range map[string]func(w http.ResponseWriter, raw string) bool{
		"status error": func(w http.ResponseWriter, _ string) bool {
			reply(w, 200, object{"status": "error", "msg": "the application does not exist"})
			return true
		},
		"a wrong secret, status 200": func(w http.ResponseWriter, _ string) bool {
			reply(w, 200, object{"error": "invalid_client", "access_token": "", "expires_in": 0})
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			p.with(func() { p.onToken, p.onResponse = nil, response })
			newBrowser(t).login(s.url, "acme").refused(http.StatusBadGateway, code.UpstreamFailed)
		})
	}
	t.Run("only an access token", func(t *testing.T) {
		p.with(func() {
			p.onResponse = func(w http.ResponseWriter, raw string) bool {
				reply(w, 200, object{"access_token": raw, "token_type": "Bearer", "expires_in": 3600})
				return true
			}
		})
		newBrowser(t).enter(s.url, "acme")
	})
}
