package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/rbac"
)

// Fail answers a request as if its handler had returned err. It is for handlers of other packages that word no errors
// themselves. Of routes that New did not make, it answers 500.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	if c := callOf(r); c != nil {
		c.server.fail(w, r, err)
		return
	}
	e := &Error{Code: InternalError}
	_ = httpapi.WriteJSON(w, e.status(), errorBody{e.Code, e.message(), nil, httpapi.RequestID(w)})
}

// fail is the one place where an error becomes an answer.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	route := &Route{}
	if c := callOf(r); c != nil {
		route = c.route
	}
	e := s.known(r, err)
	if httpapi.Began(w) {
		s.logFault(w, r, e, err)
		panic(http.ErrAbortHandler)
	}
	if caller := CallerOf(r); e.Code == Forbidden && caller.UserID != "" && s.cfg.Denied != nil {
		if refused, ok := errors.AsType[*rbac.DeniedError](err); ok {
			caller.RoleNow = refused.Role // which may have changed since the caller was let in
		}
		if err = s.cfg.Denied(r, *route, caller); err != nil {
			e = s.known(r, err)
		}
	}
	status := e.status()
	if status >= http.StatusInternalServerError {
		s.logFault(w, r, e, err)
	}
	h := w.Header()
	for _, name := range []string{"Etag", "Last-Modified", "Content-Encoding", "Content-Disposition"} {
		h.Del(name) // of the answer that there would have been
	}
	h["Cache-Control"] = noStore
	switch status {
	case http.StatusUnauthorized:
		if !route.NoChallenge {
			h.Set("Www-Authenticate", challenge(r, e.Code))
		}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.FormatInt(max(1, int64((e.RetryAfter+time.Second-1)/time.Second)), 10))
	}
	body := errorBody{e.Code, e.message(), e.Data, httpapi.RequestID(w)}
	if err := httpapi.WriteJSON(w, status, body); err != nil { // Data has no JSON form, and nothing is written
		s.logFault(w, r, e, err)
		body.Data = nil
		_ = httpapi.WriteJSON(w, status, body)
	}
}

// known says what an error is to a client.
func (s *server) known(r *http.Request, err error) *Error {
	var (
		known   *Error
		code    Code
		fields  Fields
		body    *httpapi.BodyError
		large   *http.MaxBytesError
		refused *rbac.DeniedError
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &code):
		return &Error{Code: code}
	case errors.As(err, &fields):
		return &Error{Code: ValidationFailed, Data: fieldFaults{fields}}
	case errors.As(err, &refused):
		return &Error{Code: Forbidden}
	case errors.As(err, &body):
		e := InvalidRequest.New("The request cannot be read: " + body.Message + ".")
		if body.Field != "" {
			e.Data = fieldFaults{map[string]string{body.Field: strings.TrimPrefix(body.Message, body.Field+" ")}}
		}
		return e
	case errors.Is(err, httpapi.ErrTooLarge), errors.As(err, &large):
		e := &Error{Code: PayloadTooLarge}
		if c := callOf(r); c != nil {
			e.Message = "The body is too large: at most " + strconv.FormatInt(c.route.BodyLimit, 10) + " bytes are taken."
		}
		return e
	case errors.Is(err, httpapi.ErrNotFound):
		return &Error{Code: NotFound}
	case errors.Is(err, httpapi.ErrMethodNotAllowed):
		return &Error{Code: MethodNotAllowed}
	}
	if e := s.cfg.Translate(err); e != nil {
		return e
	}
	if gone(r, err) {
		return &Error{Code: Unavailable}
	}
	return &Error{Code: InternalError, Cause: err}
}

// gone holds where nobody is at fault, and nobody is there to be answered.
func gone(r *http.Request, err error) bool {
	return errors.Is(err, context.Canceled) && r.Context().Err() != nil
}

// logFault tells the log what a client does not get to know.
func (s *server) logFault(w http.ResponseWriter, r *http.Request, e *Error, err error) {
	if gone(r, err) || errors.Is(err, httpapi.ErrPanic) { // the shell has logged the panic, with its stack
		return
	}
	level := slog.LevelWarn
	if e.Code == InternalError {
		level = slog.LevelError
	}
	route := "*"
	if c := callOf(r); c != nil {
		route = c.route.Path
	}
	s.cfg.Logger.LogAttrs(context.WithoutCancel(r.Context()), level, "request failed", slog.String("err", err.Error()), slog.String("method", r.Method),
		slog.String("route", route), slog.String("requestId", httpapi.RequestID(w)))
}

// challenge is RFC 6750: the error is told where a token was given and refused.
func challenge(r *http.Request, code Code) string {
	switch code {
	case Unauthenticated, TokenExpired, TokenRevoked:
		if hasBearer(r) {
			return `Bearer error="invalid_token"`
		}
	}
	return "Bearer"
}
