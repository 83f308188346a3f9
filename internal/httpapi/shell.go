// Package httpapi has the common parts of the HTTP APIs of this module: request ids, the access
// log, recovery from panics, the settings of the router, and JSON bodies. An API adds its error
// adapter and its routes.
//
// A body is read only up to the limit of its route before it is decoded into typed values, and has
// at most 262,144 values, so that time and memory are bounded. encoding/json bounds the depth.
package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
)

// maxLoggedPath bounds the bytes of a path, which the client chooses, in the access log.
const maxLoggedPath = 512

// RequestIDHeader is the header of the request id in requests and responses.
const RequestIDHeader = "X-Request-Id"

// Errors of the router. The error adapter of an API chooses their text.
var (
	ErrNotFound         = errors.New("no such path")
	ErrMethodNotAllowed = errors.New("method not allowed")
)

// ErrPanic is the error that Fail receives for a handler that panicked. It is already logged.
var ErrPanic = errors.New("panic")

// Handler responds to a request, or returns an error and has written nothing.
type Handler func(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error

// Shell is the configuration of the common parts of an API.
type Shell struct {
	Logger *slog.Logger

	// Fail is the error adapter: it responds to the request with an error.
	Fail func(w http.ResponseWriter, r *http.Request, err error)

	// RemoteIP returns the client's address for the access log, or "". If it is nil, the log has
	// none.
	RemoteIP func(r *http.Request) string

	// Quiet reports whether a path is logged at debug level, such as that of a frequent probe.
	Quiet func(path string) bool

	// Observe is called after each response with the route that SetRoute has set, or "". If it is nil,
	// responses are not observed.
	Observe func(r *http.Request, route string, status int, took time.Duration)
}

// Router returns a router that passes unknown paths and methods to Fail.
func (s *Shell) Router() *httprouter.Router {
	router := httprouter.New()
	router.RedirectTrailingSlash = false
	router.RedirectFixedPath = false
	router.HandleOPTIONS = false
	router.NotFound = s.failing(ErrNotFound)
	router.MethodNotAllowed = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// httprouter includes OPTIONS in the allowed methods even if it does not handle it.
		allow := strings.Split(w.Header().Get("Allow"), ", ")
		allow = slices.DeleteFunc(allow, func(method string) bool { return method == http.MethodOptions })
		w.Header().Set("Allow", strings.Join(allow, ", "))
		s.Fail(w, r, ErrMethodNotAllowed)
	})
	return router
}

func (s *Shell) failing(err error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.Fail(w, r, err) })
}

// Handle adapts a handler for the router.
func (s *Shell) Handle(h Handler) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, ps httprouter.Params) {
		if err := h(w, r, ps); err != nil {
			s.Fail(w, r, err)
		}
	}
}

// Wrap adds request ids, the access log and recovery from panics to a handler.
func (s *Shell) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		id := r.Header.Get(RequestIDHeader)
		if !ids.Plain(id, 128) { // it is logged
			id = ids.New()
		}

		w.Header().Set(RequestIDHeader, id)
		res := &response{ResponseWriter: w, head: r.Method == http.MethodHead}
		if r.ContentLength != 0 {
			readWithin(w, bodyTimeout)
			res.unread = true
			r.Body = &body{r.Body, res}
		}

		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
				s.Logger.Error("panic", "panic", fmt.Sprint(p), "request_id", id, "stack", string(debug.Stack()))
				if res.status == 0 {
					s.Fail(res, r, fmt.Errorf("%w: %v", ErrPanic, p))
					p = nil
				} else {
					p = http.ErrAbortHandler // an incomplete response must not be well-formed
				}
			}

			took := time.Since(begin)
			if s.Observe != nil {
				s.Observe(r, res.route, res.Status(), took)
			}

			s.log(r, res, id, took)
			if p != nil {
				panic(p)
			}
		}()
		next.ServeHTTP(res, r)
	})
}

func (s *Shell) log(r *http.Request, res *response, id string, took time.Duration) {
	level := slog.LevelInfo
	if s.Quiet != nil && s.Quiet(r.URL.Path) {
		level = slog.LevelDebug
	}

	if ctx := context.Background(); s.Logger.Enabled(ctx, level) {
		attrs := []slog.Attr{
			slog.String("method", r.Method), slog.String("path", excerpt.Shorten(cmp.Or(res.path, r.URL.Path), maxLoggedPath)),
			slog.Int("status", res.Status()), slog.Int64("bytes", res.bytes),
			slog.Int64("duration_ms", took.Milliseconds()), slog.String("request_id", id),
		}
		if res.user != "" {
			attrs = append(attrs, slog.String("tenant", res.tenant), slog.String("user", excerpt.Shorten(res.user, maxLoggedPath)))
		}

		if s.RemoteIP != nil {
			attrs = append(attrs, slog.String("remote_ip", s.RemoteIP(r)))
		}

		s.Logger.LogAttrs(ctx, level, "request", attrs...)
	}
}

// HasEncodedSlash reports whether the path of u has a slash that is percent-encoded. net/http
// decodes it, so that a router would take it for a separator: a handler rejects such a path as
// unknown. The raw path is also checked if it does not fit the decoded one, as after a handler that
// changed only one of them.
func HasEncodedSlash(u *url.URL) bool {
	return u.RawPath != "" && strings.Contains(strings.ToLower(u.RawPath), "%2f")
}

// RequestID returns the id that Wrap assigned to the request of w.
func RequestID(w http.ResponseWriter) string { return w.Header().Get(RequestIDHeader) }
