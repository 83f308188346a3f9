package api

import (
	"net/http"
	"strings"
)

// Headers are shared among answers: who changes one replaces the slice, as http.Header.Set does.
var (
	noStore    = []string{"no-store"}
	noSniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
	noFrames   = []string{"default-src 'none'; frame-ancestors 'none'"}
	deny       = []string{"DENY"}
	sameOrigin = []string{"same-origin"}
)

// secure sets what every answer has, unless its handler sets it otherwise.
func secure(h http.Header) {
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	h["Referrer-Policy"] = noReferrer
	h["Content-Security-Policy"] = noFrames
	h["X-Frame-Options"] = deny
	h["Cross-Origin-Resource-Policy"] = sameOrigin
}

// What a script of an allowed origin may send and see, beside what it may always.
const (
	corsRequest  = "Authorization, Content-Type, If-Match, If-None-Match, X-Request-Id"
	corsResponse = "Audit-Checkpoint, Audit-Snapshot-Id, Content-Disposition, ETag, Retry-After, WWW-Authenticate, X-Request-Id"
	corsMaxAge   = "600" // seconds for which a browser need not ask again
)

// answerCORS lets scripts of the allowed origins see the answer. It reports whether it has answered: a browser that asks
// beforehand. Credentials are tokens in a header, so that no Access-Control-Allow-Credentials is needed.
func (s *server) answerCORS(w http.ResponseWriter, r *http.Request) bool {
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
	if len(methods) == 0 {
		return false // it will be 404
	}
	s.logMissed(w, r)
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", strings.Join(methods, ", "))
	h.Set("Access-Control-Allow-Headers", corsRequest)
	h.Set("Access-Control-Max-Age", corsMaxAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}
