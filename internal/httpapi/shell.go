// Package httpapi is what the HTTP APIs of this project have in common: request ids, the access
// log, panics, the router's settings, and JSON in and out. Each API brings its one error adapter
// and its routes.
package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/ids"
)

// RequestIDHeader carries the request id, in and out.
const RequestIDHeader = "X-Request-Id"

// What the router answers by itself. An API's error adapter words them.
var (
	ErrNotFound         = errors.New("no such path")
	ErrMethodNotAllowed = errors.New("method not allowed")
)

// ErrPanic is what Fail gets for a handler that panicked. The log has it already.
var ErrPanic = errors.New("panic")

// Handler answers a request, or returns an error and has written nothing.
type Handler func(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error

// Shell holds what is around the handlers of one API.
type Shell struct {
	Logger *slog.Logger

	// Fail is the error adapter: it answers the request with what the error is to a client.
	Fail func(w http.ResponseWriter, r *http.Request, err error)

	// Quiet paths are logged at debug level: probes come every few seconds.
	Quiet func(path string) bool
}

// Router makes a router that answers everything unknown through Fail, and nothing by itself.
func (s *Shell) Router() *httprouter.Router {
	router := httprouter.New()
	router.RedirectTrailingSlash = false
	router.RedirectFixedPath = false
	router.HandleOPTIONS = false
	router.NotFound = s.failing(ErrNotFound)
	router.MethodNotAllowed = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// httprouter names OPTIONS among the allowed methods, though it was told not to answer it.
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

// Handle makes a route of a handler.
func (s *Shell) Handle(h Handler) httprouter.Handle {
	return func(w http.ResponseWriter, r *http.Request, ps httprouter.Params) {
		if err := h(w, r, ps); err != nil {
			s.Fail(w, r, err)
		}
	}
}

// Wrap puts request id, access log and the catch for panics around a handler.
func (s *Shell) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		id := r.Header.Get(RequestIDHeader)
		if !ids.Plain(id, 128) { // it is going to stand in logs
			id = ids.New()
		}
		w.Header().Set(RequestIDHeader, id)
		res := &response{ResponseWriter: w}
		if r.ContentLength != 0 {
			readWithin(w, bodyTimeout)
			res.unread = true
			r.Body = &body{r.Body, res}
		}
		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
				s.Logger.Error("panic", "panic", fmt.Sprint(p), "requestId", id, "stack", string(debug.Stack()))
				if res.status == 0 {
					s.Fail(res, r, fmt.Errorf("%w: %v", ErrPanic, p))
					p = nil
				} else {
					p = http.ErrAbortHandler // half an answer must not look like a whole one
				}
			}
			s.log(r, res, id, begin)
			if p != nil {
				panic(p)
			}
		}()
		next.ServeHTTP(res, r)
	})
}

func (s *Shell) log(r *http.Request, res *response, id string, begin time.Time) {
	level := slog.LevelInfo
	if s.Quiet != nil && s.Quiet(r.URL.Path) {
		level = slog.LevelDebug
	}
	if ctx := context.Background(); s.Logger.Enabled(ctx, level) {
		s.Logger.LogAttrs(ctx, level, "request",
			slog.String("method", r.Method), slog.String("path", cut(cmp.Or(res.path, r.URL.Path))),
			slog.Int("status", res.Status()), slog.Int64("bytes", res.bytes),
			slog.Int64("durationMs", time.Since(begin).Milliseconds()), slog.String("requestId", id))
	}
}

// cut keeps what a caller chose from filling the log.
func cut(s string) string {
	const most = 512
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// RequestID returns the id that Wrap gave the request that w answers.
func RequestID(w http.ResponseWriter) string { return w.Header().Get(RequestIDHeader) }
