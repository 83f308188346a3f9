package runtime

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/httpapi"
)

// guard rejects requests from web pages of other origins, requests with a foreign host name and, if
// keys are configured, requests without a valid key. It sets the headers of every response. The
// other requests are those of a protocol or of next.
func (rt *Runtime) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Cache-Control"] = noStore
		h["Cross-Origin-Resource-Policy"] = sameOrigin
		p := rt.protocolOf(r.URL.Path)
		switch err := rt.checkRequest(r, p != nil); {
		case err != nil && p != nil && p.fail != nil:
			p.fail(w, r, err)
		case err != nil:
			rt.fail(w, r, err)
		case p != nil:
			p.serve(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// protocol is a handler of Config.Protocols.
type protocol struct {
	prefix string
	serve  http.HandlerFunc
	fail   func(http.ResponseWriter, *http.Request, error) // nil: as other routes
	closer io.Closer                                       // may be nil
}

// openProtocols makes the handlers of Config.Protocols.
func (rt *Runtime) openProtocols() {
	for prefix, open := range rt.cfg.Protocols {
		h := open(rt)
		served := rt.served(http.StripPrefix(prefix, h).ServeHTTP)
		p := &protocol{prefix: prefix, serve: func(w http.ResponseWriter, r *http.Request) {
			_ = rt.routed(route{r.Method, prefix, served})(w, r, nil) // served writes its errors
		}}
		if f, ok := h.(interface {
			Fail(w http.ResponseWriter, r *http.Request, err error)
		}); ok {
			p.fail = f.Fail
		}

		p.closer, _ = h.(io.Closer)

		rt.protocols = append(rt.protocols, p)
	}
}

// protocolOf returns the protocol of a path, or nil.
func (rt *Runtime) protocolOf(path string) *protocol {
	for _, p := range rt.protocols {
		if rest, ok := strings.CutPrefix(path, p.prefix); ok && strings.HasPrefix(rest, "/") {
			return p
		}
	}

	return nil
}

// Shared by all responses: Header.Set replaces a slice and does not change it.
var (
	noStore    = []string{"no-store"}
	sameOrigin = []string{"same-origin"}
)

// checkRequest returns the error of a request that is rejected. The client of a protocol may send
// its key as Authorization: Bearer.
func (rt *Runtime) checkRequest(r *http.Request, ofProtocol bool) error {
	keyless := len(*rt.keys.Load()) == 0
	if keyless && !httpapi.AllowsHost(r, rt.cfg.AllowedHosts) {
		return forbidden("host name not allowed by a runtime without an API key")
	}

	// CrossOriginProtection permits GET. Without a key, a page could embed a file or start its
	// download.
	crossSite := keyless && r.Header.Get("Sec-Fetch-Site") == "cross-site"
	if crossSite || rt.crossing.Check(r) != nil {
		return forbidden("cross-origin request")
	}

	if !keyless && (ofProtocol || r.URL.Path == "/v1" || strings.HasPrefix(r.URL.Path, "/v1/")) {
		key := r.Header.Get("X-Api-Key")
		if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); ofProtocol && key == "" && strings.EqualFold(scheme, "Bearer") {
			key = token
		}

		if err := rt.checkKey(key); err != nil {
			return err
		}
	}

	if httpapi.HasEncodedSlash(r.URL) {
		return httpapi.ErrNotFound
	}

	return nil
}

// SetAPIKeys replaces the keys of Config.APIKeys. Requests that have begun continue. It fails if
// there is no key, or an empty one.
func (rt *Runtime) SetAPIKeys(keys []string) error {
	if len(keys) == 0 || slices.Contains(keys, "") {
		return errors.New("set API keys: a key is empty, or there is none")
	}

	rt.keys.Store(digests(keys))
	return nil
}

func (rt *Runtime) checkKey(key string) error {
	if key == "" {
		return unauthorized("missing x-api-key header")
	}

	// All keys are compared, so that the time does not reveal which key is similar.
	sum, same := sha256.Sum256([]byte(key)), 0
	for _, valid := range *rt.keys.Load() {
		same |= subtle.ConstantTimeCompare(sum[:], valid[:])
	}

	if same == 0 {
		return unauthorized("invalid api key")
	}

	return nil
}
