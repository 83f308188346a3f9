package soak_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type object map[string]any

// organizations are those of a hub in external mode. The provider of the last one fails.
var organizations = []string{"acme", "beta", "gamma", "broken"}

// provider is an identity provider that signs ada in and publishes 100 keys. It signs with the
// first.
type provider struct {
	url    string
	keys   [100]*ecdsa.PrivateKey
	grants sync.Map     // queries of authorization requests by code
	reads  atomic.Int64 // of the discovery document and the keys
}

func startProvider(t *testing.T) *provider {
	p := &provider{}
	for i := range p.keys {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		p.keys[i] = key
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		p.reads.Add(1)
		respond(w, object{"issuer": p.url, "authorization_endpoint": p.url + "/authorize", "token_endpoint": p.url + "/token", "jwks_uri": p.url + "/keys",
			"id_token_signing_alg_values_supported": []string{"ES256"}, "authorization_response_iss_parameter_supported": true})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		p.reads.Add(1)
		var keys []object
		for i, key := range p.keys {
			point, _ := key.PublicKey.Bytes() // 4, x, y
			text := base64.RawURLEncoding.EncodeToString
			keys = append(keys, object{"kty": "EC", "crv": "P-256", "use": "sig", "kid": fmt.Sprint(i), "x": text(point[1:33]), "y": text(point[33:])})
		}
		respond(w, object{"keys": keys})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		code := rand.Text()
		p.grants.Store(code, r.URL.Query())
		back := url.Values{"state": {r.FormValue("state")}, "iss": {p.url}, "code": {code}}
		http.Redirect(w, r, r.FormValue("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		grant, ok := p.grants.LoadAndDelete(r.FormValue("code"))
		if !ok {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		q := grant.(url.Values)
		claims := p.claims(q.Get("client_id"), object{"nonce": q.Get("nonce"), "preferred_username": "ada"})
		respond(w, object{"access_token": "x", "token_type": "Bearer", "expires_in": 3600, "id_token": token(p.keys[0], object{"alg": "ES256", "kid": "0"}, claims)})
	})
	mux.HandleFunc("/broken/", func(w http.ResponseWriter, _ *http.Request) {
		p.reads.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	})
	p.url = serve(t, mux)
	return p
}

func respond(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", kindJSON)
	_ = json.NewEncoder(w).Encode(body)
}

// claims returns the claims of a token of ada for a client, and more ones.
func (p *provider) claims(client string, more object) object {
	c := object{"iss": p.url, "aud": client, "sub": "1", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
	maps.Copy(c, more)
	return c
}

// logout returns the claims of a valid logout token for a client, for another user than ada.
func (p *provider) logout(client string) object {
	return p.claims(client, object{"sub": "2", "jti": rand.Text(), "events": object{"http://schemas.openid.net/event/backchannel-logout": object{}}})
}

// token returns a JWT that is signed with ES256, whatever its header says.
func token(key *ecdsa.PrivateKey, header, claims object) string {
	part := func(v object) string {
		text, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(header) + "." + part(claims)
	sum := sha256.Sum256([]byte(text))
	r, s, _ := ecdsa.Sign(rand.Reader, key, sum[:])
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// startExternal starts a hub in external mode, with the organizations. The tokens are those of
// ada, an admin, by organization.
func startExternal(t *testing.T) (*hub, *provider) {
	p, ops := startProvider(t), strings.Repeat("0123456789abcdef", 2)
	h := launchHub(t, sqlite, "AUTH_MODE=external", "OPS_API_KEY="+ops, "EXTERNAL_BOOTSTRAP_ADMINS=acme/sub:1,beta/sub:1,gamma/sub:1")
	for _, org := range organizations {
		issuer := p.url
		if org == "broken" {
			issuer += "/broken"
		}
		client, _ := json.Marshal(object{"org": org, "clientId": "hub-" + org, "clientSecret": "x", "issuer": issuer})
		status, text, err := send(t.Context(), http.MethodPost, h.url+"/api/v1/ops/tenant-clients", nil, string(client), "X-Ops-Key", ops, "Content-Type", kindJSON)
		require.NoError(t, err)
		require.Equal(t, http.StatusCreated, status, text)
		if org != "broken" {
			h.tokens[org], err = h.login(t.Context(), org)
			require.NoError(t, err)
		}
	}
	return h, p
}

// login signs ada in with the identity provider of an organization.
func (h *hub) login(ctx context.Context, org string) (access string, err error) {
	client := from("127.0.2.1")
	defer client.CloseIdleConnections()
	client.Jar, _ = cookiejar.New(nil)
	status, text, err := send(ctx, http.MethodGet, h.url+"/auth/login?org="+org, client, "", "Sec-Fetch-Site", "none")
	if err != nil {
		return "", err
	}
	var signIn struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(text), &signIn); err != nil || signIn.AccessToken == "" {
		return "", fmt.Errorf("login: status %d with %.300q: %w", status, text, err)
	}
	return signIn.AccessToken, nil
}

// logouts are floods of logout tokens without a credential, from many networks.
func logouts(t *testing.T) attack {
	h, p := startExternal(t)
	began := time.Now()
	return attack{server: h.server, pause: 100 * time.Millisecond, parallel: 8, cost: 50 * time.Millisecond,
		step: func(ctx context.Context, n int) error {
			org, alg := organizations[n/8%len(organizations)], "ES256"
			claims, key := p.logout("hub-"+org), p.keys[99]
			if org == "broken" {
				claims["iss"] = p.url + "/broken"
			}
			kid := any(fmt.Sprint("unknown ", n))
			switch n % 8 {
			case 0:
				kid = nil
			case 1:
				kid = "0" // the signature is wrong
			case 2:
				kid = "99" // published, beyond the limit
			case 3:
				alg = []string{"none", "HS256", "RS256"}[n%3]
			case 4:
				claims["aud"] = []string{"hub-acme", "hub-beta"}
			case 5:
				claims["pad"] = strings.Repeat("x", 5000)
			case 6:
				kid, key, claims["exp"] = "0", p.keys[0], 1
			}
			header := object{"alg": alg, "kid": kid}
			if kid == nil {
				delete(header, "kid")
			}
			client := from(fmt.Sprintf("127.1.%d.%d", n/200%200, 1+n%200))
			defer client.CloseIdleConnections()
			body := url.Values{"logout_token": {token(key, header, claims)}}.Encode()
			if _, _, err := h.do(ctx, client, "/auth/backchannel-logout", "", body, kindForm, http.StatusBadRequest, http.StatusTooManyRequests, http.StatusServiceUnavailable); err != nil {
				return err
			}
			// Each of the two providers is read at most twice in 10 s, after some failures at the start.
			if reads, most := p.reads.Load(), 30+int64(time.Since(began)/time.Second); reads > most {
				return fmt.Errorf("the identity provider was read %d times, more than %d", reads, most)
			}
			return nil
		},
		other: func(ctx context.Context) error {
			if _, err := h.login(ctx, "acme"); err != nil {
				return err
			}
			body := url.Values{"logout_token": {token(p.keys[0], object{"alg": "ES256", "kid": "0"}, p.logout("hub-beta"))}}.Encode()
			_, _, err := h.do(ctx, nil, "/auth/backchannel-logout", "", body, kindForm, http.StatusOK)
			return err
		}}
}

// names are long and distinct names of agents below /runtime, without a credential.
func names(t *testing.T) attack {
	h := startHub(t, sqlite)
	lengths := []int{10, 60, 100, 120, 200, 900, 2000, 20_000}
	return attack{server: h.server, pause: 200 * time.Millisecond, parallel: 2, peak: 96 * mib, other: h.signIn(),
		step: func(ctx context.Context, n int) error {
			name := func(i int) string {
				text := fmt.Sprintf("a%d-%d-", n, i)
				return text + strings.Repeat("x", max(0, lengths[i%len(lengths)]-len(text)))
			}
			paths := func(i int) string {
				return []string{"/runtime/%s/v1/agents", "/runtime/%s/a/v1/agents", "/runtime/default/%s/health", "/runtime/%%41%s", "/runtime/a/%s?x=%[1]s"}[i%5]
			}
			return pipeline(ctx, h.server, 800, func(i int) string {
				return "GET " + fmt.Sprintf(paths(i), name(i)) + " HTTP/1.1\r\nHost: x\r\n" + []string{"", "x-api-key: " + name(i) + "\r\n"}[i/5%2]
			}, http.StatusUnauthorized, http.StatusTooManyRequests)
		}}
}
