package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/outbound"
)

const (
	callTimeout  = 10 * time.Second // of one request to a provider
	maxResponse  = 1 << 20          // bytes of its body
	maxCalls     = 64               // logins that wait for one provider
	maxProviders = 2048             // in the cache
	maxCause     = 200              // characters of a provider's text in the log
	metadataLife = time.Hour
	keysLife     = 15 * time.Minute
	retryAfter   = 5 * time.Second

	// A failed request is repeated after a second. The pause doubles with each further failure.
	firstPause = time.Second
	maxPause   = 16 * time.Second
)

// newHTTPClient returns a client whose requests are bounded in time and size. It does not follow
// redirects, which would send secrets to another server.
func newHTTPClient() *http.Client {
	t := outbound.Transport()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 256, 16
	return &http.Client{
		Transport:     outbound.Limit(t, maxResponse),
		Timeout:       callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// unavailable is the 503 of a provider that cannot be reached or is too slow.
func unavailable(cause error) error {
	return &wire.Error{
		Code: wire.Unavailable, Message: "The identity provider does not respond: try again.", RetryAfter: retryAfter, Cause: cause,
	}
}

// upstreamFailed is the 502 of a provider whose response cannot be used.
func upstreamFailed(cause error) error {
	return &wire.Error{Code: code.UpstreamFailed, Message: "The identity provider responded with an error: ask its administrator.", Cause: cause}
}

// metadata is the part of the discovery document that the hub uses.
type metadata struct {
	Issuer      string   `json:"issuer"`
	AuthURL     string   `json:"authorization_endpoint"`
	TokenURL    string   `json:"token_endpoint"`
	UserinfoURL string   `json:"userinfo_endpoint"`
	KeysURL     string   `json:"jwks_uri"`
	Algorithms  []string `json:"id_token_signing_alg_values_supported"`
	AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	SendsIssuer bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207
}

// idp is an identity provider, with what the hub remembers of it.
type idp struct {
	issuer string
	used   time.Time // guarded by Service.mu
	meta   remembered[metadata]
	keys   remembered[[]publicKey]
	slots  chan struct{} // of logins
	verify chan struct{} // of the one signature that is verified at a time
}

// provider returns what the hub remembers of an issuer: clients of several organizations share it.
func (s *Service) provider(issuer string) *idp {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.providers[issuer]
	if p == nil {
		if len(s.providers) >= maxProviders { // the one that was not used for the longest time
			oldest := slices.MinFunc(slices.Collect(maps.Values(s.providers)), func(a, b *idp) int { return a.used.Compare(b.used) })
			delete(s.providers, oldest.issuer)
		}

		p = &idp{issuer: issuer, slots: make(chan struct{}, maxCalls), verify: make(chan struct{}, 1)}
		p.meta.fetching, p.keys.fetching = make(chan struct{}, 1), make(chan struct{}, 1)
		s.providers[issuer] = p
	}

	p.used = time.Now()
	return p
}

// begin takes a slot of the provider, or fails with 503 if too many requests wait for it.
func (p *idp) begin() (func(), error) {
	select {
	case p.slots <- struct{}{}:
		return func() { <-p.slots }, nil
	default:
		return nil, unavailable(errors.New("too many logins wait for the identity provider"))
	}
}

// metadata returns the discovery document.
func (s *Service) metadata(ctx context.Context, p *idp) (metadata, error) {
	m, _, err := p.meta.get(ctx, s, metadataLife, func(ctx context.Context) (m metadata, err error) {
		provider, err := oidc.NewProvider(oidc.ClientContext(ctx, s.http), p.issuer)
		if err != nil {
			failed := unavailable
			if _, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
				failed = upstreamFailed
			}

			// The text of the library's errors may contain the body of the response.
			return m, failed(fmt.Errorf("discover %s: %s", p.issuer, excerpt.Characters(api.Plain(err.Error()), maxCause)))
		}

		if err := provider.Claims(&m); err != nil {
			return m, upstreamFailed(fmt.Errorf("discover %s: %w", p.issuer, err))
		}

		for _, endpoint := range []string{m.AuthURL, m.TokenURL, m.KeysURL, cmp.Or(m.UserinfoURL, m.TokenURL)} {
			if !isEndpoint(endpoint, p.issuer) {
				return m, upstreamFailed(fmt.Errorf("discover %s: the endpoint %q is not an https URL", p.issuer, excerpt.Characters(endpoint, maxCause)))
			}
		}

		m.Algorithms = slices.DeleteFunc(m.Algorithms, func(alg string) bool { return !slices.Contains(algorithms, alg) })
		if len(m.Algorithms) == 0 {
			m.Algorithms = []string{oidc.RS256}
		}

		return m, nil
	})
	return m, err
}

// isEndpoint reports whether a provider may name the endpoint. Only a provider that is itself on
// this machine may name another address of it without TLS: others must not reach what listens
// there.
func isEndpoint(endpoint, issuer string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && isSafe(u) && (u.Scheme == "https" || strings.HasPrefix(issuer, "http:"))
}

// authStyle is how the client authenticates at the token endpoint. The methods of the discovery
// document default to basic authentication (OpenID Connect Discovery 1.0, section 3).
func (m metadata) authStyle() oauth2.AuthStyle {
	if len(m.AuthMethods) == 0 || slices.Contains(m.AuthMethods, "client_secret_basic") {
		return oauth2.AuthStyleInHeader
	}

	return oauth2.AuthStyleInParams
}

// remembered is a value of a provider that is fetched again when it is too old. Concurrent callers
// wait for one request. A failure is remembered too: until the pause after it ends, it is the
// result.
type remembered[T any] struct {
	fetching chan struct{} // has an element during a request

	mu       sync.Mutex // guards the fields below
	value    T
	at       time.Time // the zero time means that there is no value
	fetches  int       // that succeeded
	failure  error     // of the last request, or nil
	failedAt time.Time
	pause    time.Duration
}

// known returns the value, and how often it was fetched, if it is not older than life, or the error
// of a request that is not repeated yet.
func (r *remembered[T]) known(now time.Time, life time.Duration) (T, int, error, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := now.Sub(r.at); !r.at.IsZero() && age >= 0 && age < life {
		return r.value, r.fetches, nil, true
	}

	age := now.Sub(r.failedAt)
	var value T
	return value, r.fetches, r.failure, r.failure != nil && age >= 0 && age < r.pause
}

// get returns the value, or fetches it if it is older than life. It also returns how often the
// value was fetched. The request continues for the other callers if ctx ends.
func (r *remembered[T]) get(ctx context.Context, s *Service, life time.Duration, fetch func(context.Context) (T, error)) (T, int, error) {
	if value, n, err, ok := r.known(s.store.Now(), life); ok {
		return value, n, err
	}

	var value T
	select {
	case r.fetching <- struct{}{}:
		defer func() { <-r.fetching }()
	case <-ctx.Done():
		return value, 0, context.Cause(ctx)
	}

	if value, n, err, ok := r.known(s.store.Now(), life); ok { // after the request of another caller
		return value, n, err
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	value, err := fetch(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = err
	if err != nil {
		r.failedAt, r.pause = s.store.Now(), min(max(firstPause, 2*r.pause), maxPause)
		return value, r.fetches, err
	}

	r.value, r.at, r.pause = value, s.store.Now(), 0
	r.fetches++
	return value, r.fetches, nil
}
