package api

import (
	"net/http"
	"strings"

	"github.com/seed93082962/agenthost/internal/httpapi"
)

// These values are shared by all responses. They are replaced, never changed, as by
// http.Header.Set.
var (
	noStore    = []string{"no-store"}
	noSniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	noFrames   = []string{"default-src 'none'; frame-ancestors 'none'"}
	deny       = []string{"DENY"}
	sameOrigin = []string{"same-origin"}
)

// setSecurityHeaders sets the headers of every response. A handler may replace them.
func setSecurityHeaders(h http.Header) {
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	h["Referrer-Policy"] = noReferrer
	h["Content-Security-Policy"] = noFrames
	h["X-Frame-Options"] = deny
	h["Cross-Origin-Resource-Policy"] = sameOrigin
}

// Headers that a script of an allowed origin may send and read in addition to the standard ones.
const (
	corsRequest  = "Authorization, Content-Type, If-Match, If-None-Match, X-Request-Id"
	corsResponse = "Audit-Checkpoint, Audit-Snapshot-Id, Content-Disposition, ETag, Retry-After, WWW-Authenticate, X-Request-Id"
	corsMaxAge   = "600" // seconds for which a browser caches the preflight response
)

// handleCORS permits scripts of the allowed origins to read the response. It reports whether the
// request was a preflight request, to which it has responded. Credentials are tokens in a header:
// Access-Control-Allow-Credentials is not needed.
func (s *server) handleCORS(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if !s.cors[origin] {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsResponse)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	methods := s.methods(r.URL.Path)
	if len(methods) == 0 || httpapi.HasEncodedSlash(r.URL) {
		return false // the response is 404
	}
	s.logUnmatched(w, r)
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
	h.Set("Access-Control-Allow-Headers", corsRequest)
	h.Set("Access-Control-Max-Age", corsMaxAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}
