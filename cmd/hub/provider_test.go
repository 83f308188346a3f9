package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// provider is an identity provider. It rejects all clients but hub, with what they sent.
type provider struct {
	*httptest.Server
	key *ecdsa.PrivateKey

	mu     sync.Mutex        // guards the fields below
	nonces map[string]string // by code
	sent   map[string]string // secrets that it received or issued, by name
}

func startProvider(t *testing.T) *provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p := &provider{key: key, nonces: map[string]string{}, sent: map[string]string{}}
	mux := http.NewServeMux()
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.reply(t, w, http.StatusOK, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		p.reply(t, w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Use: "sig", Algorithm: "ES256"}}})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) { p.token(t, w, r) })
	return p
}

func (*provider) reply(t *testing.T, w http.ResponseWriter, status int, body any) {
	data, err := json.Marshal(body)
	require.NoError(t, err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

// authorize signs a user in, and returns the address to which the browser is redirected.
func (p *provider) authorize(t *testing.T, location string) (back, code, state string) {
	t.Helper()
	u, err := url.Parse(location)
	require.NoError(t, err)
	q := u.Query()
	code, state = rand.Text(), q.Get("state")
	p.mu.Lock()
	p.nonces[code] = q.Get("nonce")
	p.mu.Unlock()
	return q.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {state}}.Encode(), code, state
}

// token exchanges a code.
func (p *provider) token(t *testing.T, w http.ResponseWriter, r *http.Request) {
	client, secret, _ := r.BasicAuth()
	verifier := r.PostFormValue("code_verifier")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent["verifier of "+client] = verifier
	if client != "hub" {
		p.reply(t, w, http.StatusUnauthorized, map[string]string{"error": "invalid_client", "error_description": secret + " " + verifier + " is not " + client})
		return
	}
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": p.URL, "aud": client, "sub": "1", "preferred_username": "zoe", "nonce": p.nonces[r.PostFormValue("code")],
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
	token.Header["kid"] = "1"
	signed, err := token.SignedString(p.key)
	require.NoError(t, err)
	issued := map[string]string{"access_token": rand.Text(), "refresh_token": rand.Text(), "id_token": signed}
	for name, text := range issued {
		p.sent[name+" of the provider"] = text
	}
	p.reply(t, w, http.StatusOK, map[string]any{
		"access_token": issued["access_token"], "refresh_token": issued["refresh_token"], "id_token": signed, "token_type": "Bearer", "expires_in": 3600,
	})
}

// tokens returns the secrets that the provider received or issued, by name.
func (p *provider) tokens() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.sent)
}
