package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/rbac"
)

// Refusal is an error with what only the hub needs to know of it.
type Refusal struct {
	Err    error
	Caller *Caller // whose request was rejected during authentication: see [Denied]
	Limit  string  // that rejected the request with RateLimited, such as LimitUser, for metrics
}

func (e *Refusal) Error() string { return e.Err.Error() }

func (e *Refusal) Unwrap() error { return e.Err }

// Denied returns the error of a request by the caller. [Config.Denied] records such a request even
// if it was rejected before a route admitted the caller.
func Denied(caller Caller, err error) *Refusal { return &Refusal{Err: err, Caller: &caller} }

const (
	// SystemTenant has the audit entries that belong to no organization.
	SystemTenant = "system"

	// DefaultTenant is the one tenant of built-in mode, and that of the global client of external
	// mode.
	DefaultTenant = "default"
)

// WrongKey returns the error of a request with an incorrect key of a route with a KeyHeader or a
// key of the operator. [Config.Denied] records it in the log of the system and limits its number.
func WrongKey(message string) error {
	return Denied(Caller{TenantID: SystemTenant}, wire.Unauthenticated.New(message))
}

// Fail responds to a request as if its handler had returned err. It is for handlers of other
// packages that do not write errors themselves. Outside of a handler made by New the response is
// 500.
func Fail(w http.ResponseWriter, r *http.Request, err error) {
	if c := callOf(r); c != nil {
		c.server.fail(w, r, err)
		return
	}

	body := code.Response(&wire.Error{Code: code.InternalError}, httpapi.RequestID(w))
	_ = httpapi.WriteJSON(w, body.Status, body)
}

// fail writes the response of an error. No other function does.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	route := &Route{}
	if c := callOf(r); c != nil {
		route = c.route
	}

	e := s.toError(r.Context(), err)
	if httpapi.Began(w) {
		s.logError(w, r, e, err)
		panic(http.ErrAbortHandler)
	}

	if denied := s.recordDenied(r, route, e, err); denied != nil {
		err = denied
		e = s.toError(r.Context(), err)
	}

	body := code.Response(e, httpapi.RequestID(w))
	if body.Status >= http.StatusInternalServerError {
		s.logError(w, r, e, err)
	}

	if body.Status == http.StatusTooManyRequests {
		limit := ""
		if refusal, ok := errors.AsType[*Refusal](err); ok {
			limit = refusal.Limit
		}

		s.metrics.limit(r.Context(), limit)
	}

	h := w.Header()
	for _, name := range []string{"Etag", "Last-Modified", "Content-Encoding", "Content-Disposition"} {
		h.Del(name) // of the response that the handler prepared
	}

	h["Cache-Control"] = noStore
	switch body.Status {
	case http.StatusUnauthorized:
		if !route.NoChallenge {
			h.Set("Www-Authenticate", challenge(r, e.Code))
		}
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.FormatInt(seconds(e.RetryAfter), 10))
	}

	if route.Fail != nil {
		route.Fail(w, r, &body)
		return
	}

	_ = httpapi.WriteJSON(w, body.Status, body)
}

// ErrorOf returns the error of a request with ctx as the client receives it, for handlers that
// write errors in another form. The log has the cause of an internal one.
func ErrorOf(ctx context.Context, err error) *wire.Error {
	c, _ := ctx.Value(callKey{}).(*call)
	if c == nil {
		return &wire.Error{Code: code.InternalError, Status: http.StatusInternalServerError}
	}

	e := c.server.toError(ctx, err)
	body := code.Response(e, "")
	body.RetryAfter = e.RetryAfter
	if body.Status >= http.StatusInternalServerError && ctx.Err() == nil {
		c.server.cfg.Logger.WarnContext(context.WithoutCancel(ctx), "request failed", "err", err, "route", c.route.Path)
	}

	if refusal, ok := errors.AsType[*Refusal](err); ok && body.Status == http.StatusTooManyRequests {
		c.server.metrics.limit(ctx, refusal.Limit)
	}

	return &body
}

// recordDenied calls Config.Denied if the error denies a known caller a permission.
func (s *server) recordDenied(r *http.Request, route *Route, e *wire.Error, err error) error {
	caller := CallerOf(r)
	refusal, refused := errors.AsType[*Refusal](err)
	refused = refused && refusal.Caller != nil
	if refused {
		from := caller
		caller = *refusal.Caller
		caller.RemoteIP, caller.UserAgent = from.RemoteIP, from.UserAgent
		r = r.WithContext(rbac.NewContext(r.Context(), caller))
	}

	if s.cfg.Denied == nil || !refused && (caller.UserID == "" || e.Code != wire.Forbidden) {
		return nil //nolint:nilerr // err is that of the request
	}

	if denied, ok := errors.AsType[*rbac.DeniedError](err); ok && len(denied.Roles) == 1 {
		caller.RoleNow = denied.Roles[0] // it may have changed after authentication
	}

	at := *route
	if route.Prefix && s.metrics.methods[r.Method] { // it has any method, also unknown ones
		at.Method = r.Method
	}

	return s.cfg.Denied(r, at, caller, e.Code)
}

// toError converts an error to the response that the client receives.
func (s *server) toError(ctx context.Context, err error) *wire.Error {
	var (
		coded   *wire.Error
		refusal *Refusal
		bare    wire.Code
		fields  Fields
		body    *httpapi.BodyError
		large   *http.MaxBytesError
		denied  *rbac.DeniedError
	)
	cause := ended(ctx)
	if errors.As(err, &refusal) && refusal.Caller != nil {
		cause = nil
	}

	switch {
	case cause == nil && errors.As(err, &coded):
		return coded
	case cause != nil: // whatever failed because of it
		bare = wire.TokenRevoked
		errors.As(cause, &bare)
		return &wire.Error{Code: bare}
	case errors.As(err, &bare):
		return &wire.Error{Code: bare}
	case errors.As(err, &fields):
		return &wire.Error{Code: wire.ValidationFailed, Data: wire.ErrorData{Fields: fields}}
	case errors.As(err, &denied):
		return &wire.Error{Code: wire.Forbidden}
	case errors.As(err, &body):
		e := wire.InvalidRequest.New("The request cannot be parsed: " + body.Message + ".")
		if body.Field != "" {
			e.Data = wire.ErrorData{Fields: map[string]string{body.Field: strings.TrimPrefix(body.Message, body.Field+" ")}}
		}

		return e
	case errors.Is(err, httpapi.ErrTooLarge), errors.As(err, &large):
		e := &wire.Error{Code: code.PayloadTooLarge}
		if c, _ := ctx.Value(callKey{}).(*call); c != nil {
			e.Message = "The body is too large: at most " + strconv.FormatInt(c.route.BodyLimit, 10) + " bytes are accepted."
		}

		return e
	case errors.Is(err, httpapi.ErrNotFound):
		return &wire.Error{Code: wire.NotFound}
	case errors.Is(err, httpapi.ErrMethodNotAllowed):
		return &wire.Error{Code: code.MethodNotAllowed}
	}

	if e := s.cfg.Translate(err); e != nil {
		return e
	}

	if clientGone(ctx, err) {
		return &wire.Error{Code: wire.Unavailable}
	}

	return &wire.Error{Code: code.InternalError, Cause: err}
}

// clientGone reports whether the client has disconnected, which is not an error of the hub.
func clientGone(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) && ctx.Err() != nil
}

// logError logs the cause of an error, which the client does not receive.
func (s *server) logError(w http.ResponseWriter, r *http.Request, e *wire.Error, err error) {
	if clientGone(r.Context(), err) || errors.Is(err, httpapi.ErrPanic) { // already logged with its stack
		return
	}

	level := slog.LevelWarn
	if e.Code == code.InternalError {
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
func challenge(r *http.Request, code wire.Code) string {
	switch code {
	case wire.Unauthenticated, wire.TokenExpired, wire.TokenRevoked:
		if hasBearer(r) {
			return `Bearer error="invalid_token"`
		}
	}

	return "Bearer"
}
