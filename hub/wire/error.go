package wire

import (
	"cmp"
	"fmt"
	"net/http"
	"time"
)

// Error is an error response of the hub.
type Error struct {
	Code      Code      `json:"code"`    // empty if a proxy responded
	Message   string    `json:"message"` // for people; defaults to that of the code
	Data      ErrorData `json:"data,omitzero"`
	RequestID string    `json:"requestId"` // also in the log of the hub

	Status     int           `json:"-"` // defaults to that of the code
	RetryAfter time.Duration `json:"-"` // of 429 and 503; 0 if a response has no Retry-After
	Cause      error         `json:"-"` // in the hub, for its log and errors.Is; never sent
}

// ErrorData has details of an error.
type ErrorData struct {
	Fields  map[string]string `json:"fields,omitempty"`  // the fault of each invalid field
	Agents  []string          `json:"agents,omitempty"`  // that use the object
	Scenes  []string          `json:"scenes,omitempty"`  // that use the agent
	Session *Name             `json:"session,omitempty"` // the user of the browser
	Login   *Name             `json:"login,omitempty"`   // the user who would replace that one
}

// Name is who a user is to people.
type Name struct {
	Username string `json:"username"`
	OrgID    string `json:"org_id"`
}

func (e *Error) Error() string {
	text := string(e.Code) + ": " + e.text()
	if e.Code == "" {
		text = fmt.Sprintf("status %d %s", e.Status, cmp.Or(e.Message, http.StatusText(e.Status)))
	}

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

// Response returns the error as the response to the request with the id, with its defaults.
func (e *Error) Response(requestID string) Error {
	return Error{Code: e.Code, Message: e.text(), Data: e.Data, RequestID: requestID, Status: cmp.Or(e.Status, e.Code.Status())}
}

func (e *Error) text() string { return cmp.Or(e.Message, e.Code.Error()) }

// Code is the stable identifier of an error. It is an error itself: a handler returns it if the
// standard message suffices. errors.Is(err, wire.NotFound) also matches an [*Error] with the code.
type Code string

// All codes of the hub. CONTRIBUTING.md lists them with their status.
const (
	InvalidRequest   Code = "invalid_request"   // the request cannot be parsed
	ValidationFailed Code = "validation_failed" // the values of fields are invalid: see [ErrorData]

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
	ToolInUse          Code = "tool_in_use" // see [ErrorData]
	InUse              Code = "in_use"      // see [ErrorData]
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
	RateLimited        Code = "rate_limited" // see [Error.RetryAfter]

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
