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

// Error is an error with the response that the client receives.
type Error struct {
	Code       Code
	Message    string        // defaults to that of the code
	Status     int           // defaults to that of the code
	Data       any           // encoded as JSON; nil for none
	RetryAfter time.Duration // of 429 and 503, rounded up to seconds; at least 1 s
	Cause      error         // for the log and errors.Is; never sent to the client
	Caller     *Caller       // whose request was rejected during authentication: see [Code.Of]
	Limit      string        // that rejected the request with RateLimited, such as LimitUser, for metrics
}

// Of returns the code as an error of a request by the caller. [Config.Denied] records such a
// request even if it was rejected before a route admitted the caller.
func (c Code) Of(caller Caller) *Error { return &Error{Code: c, Caller: &caller} }

const (
	// SystemTenant has the audit entries that belong to no organization.
	SystemTenant = "system"

	// DefaultTenant is the one tenant of built-in mode, and that of the global client of external
	// mode.
	DefaultTenant = "default"
)

// WrongKey returns the error of a request with an incorrect key of a route with a KeyHeader or a
// key of the operator. [Config.Denied] records it in the log of the system and limits its number.
func WrongKey(message string) *Error {
	return &Error{Code: Unauthenticated, Message: message, Caller: &Caller{TenantID: SystemTenant}}
}

func (e *Error) Error() string {
	text := string(e.Code) + ": " + e.message()
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Is reports whether target is the code of the error.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

func (e *Error) Unwrap() error { return e.Cause }

func (e *Error) message() string {
	if e.Message != "" {
		return e.Message
	}
	return e.Code.Error()
}

func (e *Error) status() int {
	if e.Status != 0 {
		return e.Status
	}
	return e.Code.Status()
}

// errorBody is the JSON form of every error.
type errorBody struct {
	Code      Code   `json:"code"`
	Message   string `json:"message"`
	Data      any    `json:"data,omitempty"`
	RequestID string `json:"requestId"`
}

type fieldErrors struct {
	Fields map[string]string `json:"fields"`
}

// Code is the stable identifier of an error. It is an error itself: a handler returns it if the
// standard message suffices. errors.Is(err, api.NotFound) also matches an [*Error] with the code.
type Code string

// All codes of the hub's API. CONTRIBUTING.md lists them with their status.
const (
	InvalidRequest   Code = "invalid_request"   // the request cannot be parsed
	ValidationFailed Code = "validation_failed" // the values of fields are invalid: see [Fields]

	Unauthenticated    Code = "unauthenticated"
	TokenExpired       Code = "token_expired"
	TokenRevoked       Code = "token_revoked"
	InvalidCredentials Code = "invalid_credentials"
	RefreshReused      Code = "refresh_reused"

	Forbidden       Code = "forbidden"
	AccountDisabled Code = "account_disabled"
	BuiltinReadonly Code = "builtin_readonly"

	PasswordChangeRequired Code = "password_change_required"

	NotFound      Code = "not_found"
	InviteInvalid Code = "invite_invalid"

	Conflict           Code = "conflict"
	NameTaken          Code = "name_taken"
	AlreadyInitialized Code = "already_initialized"
	ToolInUse          Code = "tool_in_use" // Data is {"agents": [names]}
	InUse              Code = "in_use"      // Data is {"agents": [names]}
	DefaultTenantInUse Code = "default_tenant_in_use"
	LastAdmin          Code = "last_admin"
	AgentNotDeployed   Code = "agent_not_deployed"
	AgentDeployed      Code = "agent_deployed"
	DeploymentKeyTaken Code = "deployment_key_taken"

	MethodNotAllowed   Code = "method_not_allowed"
	PreconditionFailed Code = "precondition_failed"
	PayloadTooLarge    Code = "payload_too_large"
	UnsupportedMedia   Code = "unsupported_media"
	ArtifactInvalid    Code = "artifact_invalid"
	RateLimited        Code = "rate_limited" // set RetryAfter

	InternalError       Code = "internal_error"
	UpstreamFailed      Code = "upstream_failed"
	DeployerUnavailable Code = "deployer_unavailable"
	GatewayFailed       Code = "gateway_failed"
	Unavailable         Code = "unavailable"
)

// meaning is the status and the standard message of a code.
type meaning struct {
	status  int
	message string
}

// meanings has a row for each code.
var meanings = map[Code]meaning{
	InvalidRequest:   {http.StatusBadRequest, "The request cannot be parsed."},
	ValidationFailed: {http.StatusBadRequest, "Some fields are invalid: see data.fields."},

	Unauthenticated:    {http.StatusUnauthorized, "Sign in, and send the access token as \"Authorization: Bearer TOKEN\"."},
	TokenExpired:       {http.StatusUnauthorized, "The token has expired: refresh it, or sign in again."},
	TokenRevoked:       {http.StatusUnauthorized, "The token was revoked: sign in again."},
	InvalidCredentials: {http.StatusUnauthorized, "The username or the password is incorrect."},
	RefreshReused:      {http.StatusUnauthorized, "The refresh token was used before: use the newest one, or sign in again."},

	Forbidden:       {http.StatusForbidden, "Your role does not allow this: ask an administrator."},
	AccountDisabled: {http.StatusForbidden, "The account is disabled: ask an administrator."},
	BuiltinReadonly: {http.StatusForbidden, "Built-in objects cannot be changed: create your own."},

	PasswordChangeRequired: {http.StatusForbidden, "The password was set by an admin: change it first."},

	NotFound:      {http.StatusNotFound, "The path does not exist."},
	InviteInvalid: {http.StatusNotFound, "The invitation is not valid or no longer valid: ask for a new one."},

	Conflict:           {http.StatusConflict, "The request conflicts with the current state: read it again."},
	NameTaken:          {http.StatusConflict, "The name is taken: choose another."},
	AlreadyInitialized: {http.StatusConflict, "The hub is set up already: sign in."},
	ToolInUse:          {http.StatusConflict, "Agents use this tool: remove it from the agents in data.agents first."},
	InUse:              {http.StatusConflict, "Agents use this: remove it from the agents in data.agents first."},
	DefaultTenantInUse: {http.StatusConflict, "This is the default organization, and others exist: make another one the default first."},
	LastAdmin:          {http.StatusConflict, "This is the last active administrator: make another user administrator first."},
	AgentNotDeployed:   {http.StatusConflict, "The agent is not deployed: deploy it first."},
	AgentDeployed:      {http.StatusConflict, "The agent is deployed: delete the deployment first."},
	DeploymentKeyTaken: {http.StatusConflict, "Another agent has this deployment key: choose another name."},

	MethodNotAllowed:   {http.StatusMethodNotAllowed, "The path does not support the method: see the Allow header."},
	PreconditionFailed: {http.StatusPreconditionFailed, "The object was changed: read it again, and send the new version in If-Match."},
	PayloadTooLarge:    {http.StatusRequestEntityTooLarge, "The body is too large."},
	UnsupportedMedia:   {http.StatusUnsupportedMediaType, "The body must be JSON: send \"Content-Type: application/json\"."},
	ArtifactInvalid:    {http.StatusUnprocessableEntity, "The file cannot be used."},
	RateLimited:        {http.StatusTooManyRequests, "Too many requests: wait for the time in Retry-After."},

	UpstreamFailed:      {http.StatusBadGateway, "The service behind the hub failed: try again."},
	GatewayFailed:       {http.StatusBadGateway, "The gateway failed: try again."},
	DeployerUnavailable: {http.StatusServiceUnavailable, "The deployer cannot be reached: try again."},
	Unavailable:         {http.StatusServiceUnavailable, "The hub is unavailable: try again."},
	InternalError:       {http.StatusInternalServerError, "An internal error occurred: the log of the hub has its cause, with this requestId."},
}

func (c Code) meaning() meaning {
	if m, known := meanings[c]; known {
		return m
	}
	return meanings[InternalError]
}

// Status returns the HTTP status of the code.
func (c Code) Status() int { return c.meaning().status }

// Error returns the standard message of the code.
func (c Code) Error() string { return c.meaning().message }

// New returns an error with the code and its own message, a sentence that states the remedy.
func (c Code) New(message string) *Error { return &Error{Code: c, Message: message} }

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
	if status == http.StatusTooManyRequests {
		s.metrics.limit(r.Context(), e.Limit)
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
		h.Set("Retry-After", strconv.FormatInt(seconds(e.RetryAfter), 10))
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
	if denied, ok := errors.AsType[*rbac.DeniedError](err); ok && len(denied.Roles) == 1 {
		caller.RoleNow = denied.Roles[0] // it may have changed after authentication
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
