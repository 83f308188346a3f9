package session_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

var b64url = base64.RawURLEncoding

// forge returns a token with a header, claims and any signature.
func forge(t *testing.T, header, claims object, sign func(text string) []byte) string {
	t.Helper()
	part := func(v object) string {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		return b64url.EncodeToString(data)
	}
	text := part(header) + "." + part(claims)
	return text + "." + b64url.EncodeToString(sign(text))
}

// open returns the header and the claims of a token.
func open(t *testing.T, token string) (header, claims object) {
	t.Helper()
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	for i, v := range []*object{&header, &claims} {
		data, err := b64url.DecodeString(parts[i])
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, v))
	}
	return header, claims
}

func with(o object, name string, value any) object {
	o = maps.Clone(o)
	if o[name] = value; value == nil {
		delete(o, name)
	}
	return o
}

// signingKey is the hub's own, as read with both the database and the keyring.
func (s *server) signingKey() ed25519.PrivateKey {
	var id string
	var sealed []byte
	row := s.db.Read().QueryRowContext(s.cluster.t.Context(), `SELECT id, private_sealed FROM signing_keys WHERE retired_at IS NULL`)
	require.NoError(s.cluster.t, row.Scan(&id, &sealed))
	keyring, err := secret.Parse(strings.Split(s.cluster.keys, ",")...)
	require.NoError(s.cluster.t, err)
	seed, err := keyring.Open(sealed, secret.AAD("signing_keys", "private_sealed", id))
	require.NoError(s.cluster.t, err)
	return ed25519.NewKeyFromSeed(seed)
}

func TestAccessToken(t *testing.T) {
	t.Parallel()
	s := onSQLite(t, nil)
	body := s.setup()
	header, claims := open(t, body.access())
	kid := header.text("kid")
	require.Equal(t, object{"alg": "EdDSA", "typ": "at+jwt", "kid": kid}, header)
	issued := float64(s.cluster.epoch.Unix())
	require.Equal(t, issued, claims["iat"])
	require.Equal(t, issued, claims["nbf"])
	require.Equal(t, issued+900, claims["exp"])
	require.Equal(t, []any{"agenthost"}, claims["aud"])
	require.Equal(t, body.object("user")["id"], claims["sub"])
	require.Equal(t, []any{"default", "default", "root", "admin"}, []any{claims["tenant_id"], claims["org_id"], claims["name"], claims["role"]})
	for _, name := range []string{"iss", "sid", "jti"} {
		require.Len(t, claims.text(name), 36, name)
	}
	require.Len(t, claims, 12)
	_, again := open(t, s.signIn().access())
	require.Equal(t, claims["iss"], again["iss"])
	require.NotEqual(t, claims["jti"], again["jti"])

	keys := s.get("", "/.well-known/jwks.json").want(http.StatusOK)["keys"].([]any)
	require.Len(t, keys, 1)
	key := keys[0].(map[string]any)
	public := b64url.EncodeToString(s.signingKey().Public().(ed25519.PublicKey))
	require.Equal(t, map[string]any{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": kid, "x": public}, key)
}

func TestAccessTokenAttacks(t *testing.T) {
	t.Parallel()
	s := onSQLite(t, nil)
	token := s.setup().access()
	elsewhere := onSQLite(t, nil)
	stranger := elsewhere.setup().access()
	header, claims := open(t, token)
	parts := strings.Split(token, ".")
	own := s.signingKey()
	public := own.Public().(ed25519.PublicKey)
	_, evil, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	by := func(key ed25519.PrivateKey) func(string) []byte {
		return func(text string) []byte { return ed25519.Sign(key, []byte(text)) }
	}
	mac := func(key []byte) func(string) []byte {
		return func(text string) []byte {
			h := hmac.New(sha256.New, key)
			h.Write([]byte(text))
			return h.Sum(nil)
		}
	}
	none := func(string) []byte { return nil }
	seconds := func(d time.Duration) float64 { return float64(s.cluster.now().Add(d).Unix()) }
	evilJWK := object{"kty": "OKP", "crv": "Ed25519", "x": b64url.EncodeToString(evil.Public().(ed25519.PublicKey))}
	flipped := []byte(parts[2])
	flipped[10] ^= 1

	s.get(forge(t, header, with(claims, "jti", "another"), by(own)), "/auth/userinfo").want(http.StatusOK)
	for _, row := range []struct {
		name, token string
		code        wire.Code
	}{
		{"alg none", forge(t, with(header, "alg", "none"), claims, none), ""},
		{"alg None", forge(t, with(header, "alg", "None"), claims, none), ""},
		{"alg none with the old signature", forge(t, with(header, "alg", "none"), claims, by(own)), ""},
		{"no alg", forge(t, with(header, "alg", nil), claims, by(own)), ""},
		{"alg that is no string", forge(t, with(header, "alg", []string{"EdDSA"}), claims, by(own)), ""},
		{"HS256 with the public key", forge(t, with(header, "alg", "HS256"), claims, mac(public)), ""},
		{"HS256 with the public key as in the JWKS", forge(t, with(header, "alg", "HS256"), claims, mac([]byte(b64url.EncodeToString(public)))), ""},
		{"HS256 with no key", forge(t, with(header, "alg", "HS256"), claims, mac(nil)), ""},
		{"RS256", forge(t, with(header, "alg", "RS256"), claims, by(own)), ""},
		{"ES256", forge(t, with(header, "alg", "ES256"), claims, by(own)), ""},
		{"EdDSA in small letters", forge(t, with(header, "alg", "eddsa"), claims, by(own)), ""},
		{"signed by another key", forge(t, header, claims, by(evil)), ""},
		{"signature stripped", parts[0] + "." + parts[1] + ".", ""},
		{"signature and dot stripped", parts[0] + "." + parts[1], ""},
		{"signature altered", parts[0] + "." + parts[1] + "." + string(flipped), ""},
		{"signature padded", token + "==", ""},
		{"claims altered", forge(t, header, with(claims, "sub", "somebody"), func(string) []byte {
			sig, err := b64url.DecodeString(parts[2])
			require.NoError(t, err)
			return sig
		}), ""},
		{"typ JWT", forge(t, with(header, "typ", "JWT"), claims, by(own)), ""},
		{"no typ", forge(t, with(header, "typ", nil), claims, by(own)), ""},
		{"typ of an id token", forge(t, with(header, "typ", "id+jwt"), claims, by(own)), ""},
		{"no kid", forge(t, with(header, "kid", nil), claims, by(own)), ""},
		{"kid of an unknown key", forge(t, with(header, "kid", "018f0000-0000-7000-8000-000000000000"), claims, by(own)), ""},
		{"kid that is a number", forge(t, with(header, "kid", 1), claims, by(own)), ""},
		{"kid that is a path", forge(t, with(header, "kid", "../../../../dev/null"), claims, mac(nil)), ""},
		{"kid that is SQL", forge(t, with(header, "kid", "x' OR '1'='1"), claims, by(evil)), ""},
		{"kid in capitals", forge(t, with(header, "kid", strings.ToUpper(header.text("kid"))), claims, by(own)), ""},
		{"jwk in the header", forge(t, with(header, "jwk", evilJWK), claims, by(evil)), ""},
		{"jku in the header", forge(t, with(header, "jku", elsewhere.base+"/.well-known/jwks.json"), claims, by(elsewhere.signingKey())), ""},
		{"x5u in the header", forge(t, with(header, "x5u", "https://evil.example.com"), claims, by(evil)), ""},
		{"jwk in the place of kid", forge(t, with(with(header, "jwk", evilJWK), "kid", nil), claims, by(evil)), ""},
		{"crit", forge(t, with(header, "crit", []string{"exp"}), claims, by(own)), ""},
		{"expired", forge(t, header, with(claims, "exp", seconds(-time.Second)), by(own)), wire.TokenExpired},
		{"expires now", forge(t, header, with(claims, "exp", seconds(0)), by(own)), wire.TokenExpired},
		{"no exp", forge(t, header, with(claims, "exp", nil), by(own)), ""},
		{"exp that is a text", forge(t, header, with(claims, "exp", "tomorrow"), by(own)), ""},
		{"nbf in the future", forge(t, header, with(claims, "nbf", seconds(time.Minute)), by(own)), ""},
		{"no nbf", forge(t, header, with(claims, "nbf", nil), by(own)), ""},
		{"iat in the future", forge(t, header, with(claims, "iat", seconds(time.Minute)), by(own)), ""},
		{"another audience", forge(t, header, with(claims, "aud", "another"), by(own)), ""},
		{"another audience, and expired", forge(t, header, with(with(claims, "aud", "another"), "exp", seconds(-time.Hour)), by(own)), ""},
		{"no audience", forge(t, header, with(claims, "aud", nil), by(own)), ""},
		{"another issuer", forge(t, header, with(claims, "iss", "another"), by(own)), ""},
		{"no issuer", forge(t, header, with(claims, "iss", nil), by(own)), ""},
		{"of another instance", stranger, ""},
		{"of another instance, under our kid", forge(t, header, claims, by(elsewhere.signingKey())), ""},
		{"a session of another user", forge(t, header, with(claims, "sub", "018f0000-0000-7000-8000-000000000000"), by(own)), ""},
		{"a session that never was", forge(t, header, with(claims, "sid", "018f0000-0000-7000-8000-000000000000"), by(own)), wire.TokenRevoked},
		{"nothing", "..", ""},
		{"four parts", token + ".x", ""},
		{"five parts", "a.b.c.d.e", ""},
		{"no JSON", "YQ.YQ.YQ", ""},
		{"null", "bnVsbA.bnVsbA.YQ", ""},
		{"very long", token + strings.Repeat("a", 5000), ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			code := row.code
			if code == "" {
				code = wire.Unauthenticated
			}
			res := s.get(row.token, "/auth/userinfo")
			res.wantError(http.StatusUnauthorized, code)
			require.True(t, strings.HasPrefix(res.header.Get("WWW-Authenticate"), "Bearer"))
		})
	}
	s.get(token, "/auth/userinfo").want(http.StatusOK)
	s.cluster.wait(15*time.Minute - time.Microsecond - 123456*time.Microsecond)
	s.get(token, "/auth/userinfo").want(http.StatusOK)
	s.cluster.wait(time.Microsecond)
	s.get(token, "/auth/userinfo").wantError(http.StatusUnauthorized, wire.TokenExpired)
}

func TestBearerForms(t *testing.T) {
	t.Parallel()
	s := onSQLite(t, nil)
	token := s.setup().access()
	for _, row := range []struct {
		name   string
		change func(*http.Request)
		status int
	}{
		{"as it should be", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }, http.StatusOK},
		{"scheme in small letters", func(r *http.Request) { r.Header.Set("Authorization", "bearer "+token) }, http.StatusOK},
		{"no header", func(*http.Request) {}, http.StatusUnauthorized},
		{"another scheme", func(r *http.Request) { r.Header.Set("Authorization", "Basic "+token) }, http.StatusUnauthorized},
		{"no scheme", func(r *http.Request) { r.Header.Set("Authorization", token) }, http.StatusUnauthorized},
		{"twice", func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + token, "Bearer " + token} }, http.StatusUnauthorized},
		{"in the query", func(r *http.Request) { r.URL.RawQuery = "access_token=" + token }, http.StatusUnauthorized},
		{"in a cookie", func(r *http.Request) { r.Header.Set("Cookie", "access_token="+token) }, http.StatusUnauthorized},
	} {
		t.Run(row.name, func(t *testing.T) { s.send(http.MethodGet, "/auth/userinfo", "", row.change).want(row.status) })
	}
}

func FuzzAuthenticate(f *testing.F) {
	_, service, tokens := benchHub(f, dbtest.SQLite(f), 1)
	parts := strings.Split(tokens[0], ".")
	for _, seed := range []string{tokens[0], parts[0] + "." + parts[1] + ".", "a.b.c", "..", "cli_", "cli_" + strings.Repeat("0", 64), "rt_1", "", "\x00", "é"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		r := httptest.NewRequest(http.MethodGet, "/auth/userinfo", nil)
		r.Header["Authorization"] = []string{"Bearer " + token}
		caller, err := service.Authenticate(r)
		if strings.Trim(token, " ") == tokens[0] {
			require.NoError(t, err)
			return
		}
		require.ErrorIs(t, err, wire.Unauthenticated)
		require.Zero(t, caller)
	})
}
