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

// Fail responds to a request as if its handler had returned err. It is for handlers of other
// packages that do not write errors themselves. Outside of a handler made by New the response is
// 500.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	if c := callOf(r); c != nil {
		c.server.fail(w, r, err)
		return
	}
	e := &Error{Code: InternalError}
	_ = httpapi.WriteJSON(w, e.status(), errorBody{e.Code, e.message(), nil, httpapi.RequestID(w)})
}

// fail writes the response of an error. No other function does.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	route := &Route{}
	if c := callOf(r); c != nil {
		route = c.route
	}
	e := s.toError(r, err)
	if httpapi.Began(w) {
		s.logError(w, r, e, err)
		panic(http.ErrAbortHandler)
	}
	if denied := s.recordDenied(r, route, e, err); denied != nil {
		err = denied
		e = s.toError(r, err)
	}
	status := e.status()
	if status >= http.StatusInternalServerError {
		s.logError(w, r, e, err)
	}
	h := w.Header()
	for _, name := range []string{"Etag", "Last-Modified", "Content-Encoding", "Content-Disposition"} {
		h.Del(name) // of the response that the handler prepared
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
	if err := httpapi.WriteJSON(w, status, body); err != nil { // Data cannot be encoded, and nothing was written
		s.logError(w, r, e, err)
		body.Data = nil
		_ = httpapi.WriteJSON(w, status, body)
	}
}

// recordDenied calls Config.Denied if the error denies a known caller a permission.
func (s *server) recordDenied(r *http.Request, route *Route, e *Error, err error) error {
	caller := CallerOf(r)
	if e.Caller != nil {
		from := caller
		caller = *e.Caller
		caller.RemoteIP, caller.UserAgent = from.RemoteIP, from.UserAgent
		r = r.WithContext(rbac.NewContext(r.Context(), caller))
	}
	if s.cfg.Denied == nil || e.Caller == nil && (caller.UserID == "" || e.Code != Forbidden) {
		return nil //nolint:nilerr // err is that of the request
	}
	if denied, ok := errors.AsType[*rbac.DeniedError](err); ok {
		caller.RoleNow = denied.Role // it may have changed after authentication
	}
	return s.cfg.Denied(r, *route, caller, e.Code)
}

// toError converts an error to the response that the client receives.
func (s *server) toError(r *http.Request, err error) *Error {
	var (
		apiErr *Error
		code   Code
		fields Fields
		body   *httpapi.BodyError
		large  *http.MaxBytesError
		denied *rbac.DeniedError
	)
	cause := ended(r.Context())
	switch {
	case errors.As(err, &apiErr) && (cause == nil || apiErr.Caller != nil):
		return apiErr
	case cause != nil: // whatever failed because of it
		code = TokenRevoked
		errors.As(cause, &code)
		return &Error{Code: code}
	case errors.As(err, &code):
		return &Error{Code: code}
	case errors.As(err, &fields):
		return &Error{Code: ValidationFailed, Data: fieldErrors{fields}}
	case errors.As(err, &denied):
		return &Error{Code: Forbidden}
	case errors.As(err, &body):
		e := InvalidRequest.New("The request cannot be parsed: " + body.Message + ".")
		if body.Field != "" {
			e.Data = fieldErrors{map[string]string{body.Field: strings.TrimPrefix(body.Message, body.Field+" ")}}
		}
		return e
	case errors.Is(err, httpapi.ErrTooLarge), errors.As(err, &large):
		e := &Error{Code: PayloadTooLarge}
		if c := callOf(r); c != nil {
			e.Message = "The body is too large: at most " + strconv.FormatInt(c.route.BodyLimit, 10) + " bytes are accepted."
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
	if clientGone(r, err) {
		return &Error{Code: Unavailable}
	}
	return &Error{Code: InternalError, Cause: err}
}

// clientGone reports whether the client has disconnected, which is not an error of the hub.
func clientGone(r *http.Request, err error) bool {
	return errors.Is(err, context.Canceled) && r.Context().Err() != nil
}

// logError logs the cause of an error, which the client does not receive.
func (s *server) logError(w http.ResponseWriter, r *http.Request, e *Error, err error) {
	if clientGone(r, err) || errors.Is(err, httpapi.ErrPanic) { // already logged with its stack
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
		slog.String("route", route), slog.String("request_id", httpapi.RequestID(w)))
}

// challenge returns the WWW-Authenticate header of a 401 (RFC 6750, section 3): the error is
// included if a token was sent.
func challenge(r *http.Request, code Code) string {
	switch code {
	case Unauthenticated, TokenExpired, TokenRevoked:
		if hasBearer(r) {
			return `Bearer error="invalid_token"`
		}
	}
	return "Bearer"
}
