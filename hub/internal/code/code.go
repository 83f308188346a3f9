// Package code has the status and the standard message of each error code of the hub, and the codes
// that programs do not compare. The others are in hub/wire.
package code

import (
	"cmp"
	"net/http"

	"github.com/seed93082962/agenthost/hub/wire"
)

// CONTRIBUTING.md lists all codes with their status.
const (
	InvalidCredentials wire.Code = "invalid_credentials"
	RefreshReused      wire.Code = "refresh_reused"

	AccountDisabled wire.Code = "account_disabled"
	BuiltinReadonly wire.Code = "builtin_readonly"

	PasswordChangeRequired wire.Code = "password_change_required"

	InviteInvalid wire.Code = "invite_invalid"

	AlreadyInitialized wire.Code = "already_initialized"
	ToolInUse          wire.Code = "tool_in_use" // see [wire.ErrorData]
	InUse              wire.Code = "in_use"      // see [wire.ErrorData]
	DefaultTenantInUse wire.Code = "default_tenant_in_use"
	LastAdmin          wire.Code = "last_admin"
	AgentNotDeployed   wire.Code = "agent_not_deployed"
	AgentDeployed      wire.Code = "agent_deployed"
	DeploymentKeyTaken wire.Code = "deployment_key_taken"

	MethodNotAllowed wire.Code = "method_not_allowed"
	PayloadTooLarge  wire.Code = "payload_too_large"
	UnsupportedMedia wire.Code = "unsupported_media"
	ArtifactInvalid  wire.Code = "artifact_invalid"

	InternalError       wire.Code = "internal_error"
	UpstreamFailed      wire.Code = "upstream_failed"
	DeployerUnavailable wire.Code = "deployer_unavailable"
	GatewayFailed       wire.Code = "gateway_failed"
)

// meanings has the status and the standard message of each code.
var meanings = map[wire.Code]struct {
	status  int
	message string
}{
	wire.InvalidRequest:   {http.StatusBadRequest, "The request cannot be parsed."},
	wire.ValidationFailed: {http.StatusBadRequest, "Some fields are invalid: see data.fields."},

	wire.Unauthenticated: {http.StatusUnauthorized, "Sign in, and send the access token as \"Authorization: Bearer TOKEN\"."},
	wire.TokenExpired:    {http.StatusUnauthorized, "The token has expired: refresh it, or sign in again."},
	wire.TokenRevoked:    {http.StatusUnauthorized, "The token was revoked: sign in again."},
	InvalidCredentials:   {http.StatusUnauthorized, "The username or the password is incorrect."},
	RefreshReused:        {http.StatusUnauthorized, "The refresh token was used before: use the newest one, or sign in again."},

	wire.Forbidden:  {http.StatusForbidden, "Your role does not allow this: ask an administrator."},
	AccountDisabled: {http.StatusForbidden, "The account is disabled: ask an administrator."},
	BuiltinReadonly: {http.StatusForbidden, "Built-in objects cannot be changed: create your own."},

	PasswordChangeRequired: {http.StatusForbidden, "The password was set by an admin: change it first."},

	wire.NotFound: {http.StatusNotFound, "The path does not exist."},
	InviteInvalid: {http.StatusNotFound, "The invitation is not valid or no longer valid: ask for a new one."},

	wire.Conflict:      {http.StatusConflict, "The request conflicts with the current state: read it again."},
	wire.NameTaken:     {http.StatusConflict, "The name is taken: choose another."},
	AlreadyInitialized: {http.StatusConflict, "The hub is set up already: sign in."},
	ToolInUse:          {http.StatusConflict, "Agents use this tool: remove it from the agents in data.agents first."},
	InUse:              {http.StatusConflict, "Agents use this: remove it from the agents in data.agents first."},
	DefaultTenantInUse: {http.StatusConflict, "This is the default organization, and others exist: make another one the default first."},
	LastAdmin:          {http.StatusConflict, "This is the last active administrator: make another user administrator first."},
	AgentNotDeployed:   {http.StatusConflict, "The agent is not deployed: deploy it first."},
	AgentDeployed:      {http.StatusConflict, "The agent is deployed: delete the deployment first."},
	DeploymentKeyTaken: {http.StatusConflict, "Another agent has this deployment key: choose another name."},

	MethodNotAllowed:        {http.StatusMethodNotAllowed, "The path does not support the method: see the Allow header."},
	wire.PreconditionFailed: {http.StatusPreconditionFailed, "The object was changed: read it again, and send the new version in If-Match."},
	PayloadTooLarge:         {http.StatusRequestEntityTooLarge, "The body is too large."},
	UnsupportedMedia:        {http.StatusUnsupportedMediaType, "The body must be JSON: send \"Content-Type: application/json\"."},
	ArtifactInvalid:         {http.StatusUnprocessableEntity, "The file cannot be used."},
	wire.RateLimited:        {http.StatusTooManyRequests, "Too many requests: wait for the time in Retry-After."},

	UpstreamFailed:      {http.StatusBadGateway, "The service behind the hub failed: try again."},
	GatewayFailed:       {http.StatusBadGateway, "The gateway failed: try again."},
	DeployerUnavailable: {http.StatusServiceUnavailable, "The deployer cannot be reached: try again."},
	wire.Unavailable:    {http.StatusServiceUnavailable, "The hub is unavailable: try again."},
	InternalError:       {http.StatusInternalServerError, "An internal error occurred: the log of the hub has its cause, with this requestId."},
}

// Status returns the HTTP status of a code.
func Status(c wire.Code) int { return cmp.Or(meanings[c].status, http.StatusInternalServerError) }

// Response returns the body of the response with an error, and its status.
func Response(e *wire.Error, requestID string) wire.Error {
	return wire.Error{
		Code: e.Code, Message: cmp.Or(e.Message, meanings[e.Code].message, meanings[InternalError].message), Data: e.Data, RequestID: requestID,
		Status: cmp.Or(e.Status, Status(e.Code)),
	}
}
