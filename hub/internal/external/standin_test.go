package external_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
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

// standIn is an identity provider that is as strict as the standard permits: a code is valid once,
// for one client, redirect URI and verifier. Tests change its answers.
type standIn struct {
	*httptest.Server
	t   testing.TB
	now func() time.Time

	mu      sync.Mutex
	key     crypto.Signer
	kid     string
	user    object            // claims of the user who signs in
	secrets map[string]string // by client
	grants  map[string]url.Values
	casdoor bool

	noIssuer bool // the callback has no iss

	// Hooks of tests, which may be nil.
	onToken    func(claims object) // before the token is signed
	onSign     func(claims object) string
	onResponse func(w http.ResponseWriter, token string) bool // instead of the response of the token endpoint
	onDiscover func(document object)
	onKeys     http.HandlerFunc
	calls      map[string]int
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func newStandIn(s *site) *standIn {
	p := &standIn{t: s.t, now: s.now, key: rsaKey(), kid: "1", secrets: map[string]string{}, grants: map[string]url.Values{}, calls: map[string]int{}}
	p.user = object{"sub": "1", "preferred_username": "ada", "name": "Ada L.", "email": "ada@example.com"}
	mux := http.NewServeMux()
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.calls[r.URL.Path]++
		p.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	s.t.Cleanup(p.Close)
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discover)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /keys", p.publish)
	mux.HandleFunc("GET /userinfo", func(w http.ResponseWriter, r *http.Request) { reply(w, 200, p.user) })
	return p
}

// with changes the provider between requests.
func (p *standIn) with(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (p *standIn) discover(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	document := object{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"userinfo_endpoint": p.URL + "/userinfo", "id_token_signing_alg_values_supported": []string{"RS256", "ES256", "HS256", "none"},
	}
	if !p.casdoor {
		document["authorization_response_iss_parameter_supported"] = true
	}
	if p.onDiscover != nil {
		p.onDiscover(document)
	}
	reply(w, 200, document)
}

func (p *standIn) publish(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.onKeys != nil {
		p.onKeys(w, r)
		return
	}
	reply(w, 200, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: p.key.Public(), KeyID: p.kid, Use: "sig"},
	}})
}

// authorize signs the user in without a page.
func (p *standIn) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 ||
		q.Get("nonce") == "" || q.Get("state") == "" {
		reply(w, 400, object{"error": "invalid_request"})
		return
	}
	back, code := url.Values{"state": {q.Get("state")}}, rand.Text()
	p.mu.Lock()
	p.grants[code] = q
	if !p.casdoor && !p.noIssuer {
		back.Set("iss", p.URL)
	}
	p.mu.Unlock()
	back.Set("code", code)
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (p *standIn) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = r.ParseForm()
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	fail := func(code string) {
		status := 400
		if p.casdoor {
			status = 200
		}
		reply(w, status, object{"error": code, "error_description": "..."})
	}
	grant, ok := p.grants[r.PostForm.Get("code")]
	delete(p.grants, r.PostForm.Get("code"))
	challenge := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	switch {
	case basic == p.casdoor:
		fail("invalid_request")
		return
	case secret == "" || secret != p.secrets[id] && p.secrets[id] != "" || r.PostForm.Get("grant_type") != "authorization_code":
		fail("invalid_client")
		return
	case !ok || grant.Get("client_id") != id || grant.Get("redirect_uri") != r.PostForm.Get("redirect_uri") ||
		grant.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(challenge[:]):
		fail("invalid_grant")
		return
	}
	claims := object{
		"iss": p.URL, "aud": id, "exp": p.now().Add(time.Hour).Unix(), "iat": p.now().Unix(), "nonce": grant.Get("nonce"),
	}
	if p.casdoor {
		claims["tokenType"], claims["aud"] = "access-token", []string{id}
	}
	maps.Copy(claims, p.user)
	if p.onToken != nil {
		p.onToken(claims)
	}
	raw := p.sign(claims)
	if p.onResponse != nil && p.onResponse(w, raw) {
		return
	}
	body := object{"access_token": "opaque-access-token", "refresh_token": "opaque-refresh-token", "token_type": "Bearer", "expires_in": 3600, "id_token": raw}
	if p.casdoor {
		body["access_token"] = raw
	}
	reply(w, 200, body)
}

// sign is called with mu held.
func (p *standIn) sign(claims object) string {
	if p.onSign != nil {
		return p.onSign(claims)
	}
	return signed(p.t, p.key, p.kid, nil, claims)
}

// signed returns a JWT. The header may replace fields.
func signed(t testing.TB, key any, kid string, header, claims object) string {
	var method jwt.SigningMethod = jwt.SigningMethodRS256
	switch key.(type) {
	case *ecdsa.PrivateKey:
		method = jwt.SigningMethodES256
	case []byte:
		method = jwt.SigningMethodHS256
	}
	token := jwt.NewWithClaims(method, jwt.MapClaims(claims))
	token.Header["kid"] = kid
	maps.Copy(token.Header, header)
	raw, err := token.SignedString(key)
	require.NoError(t, err)
	return raw
}

func ecKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

// publicPEM returns the public key in PEM.
func publicPEM(t testing.TB, key crypto.Signer) string {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}
