package api

import "net/http"

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
	InvalidCredentials Code = "invalid_credentials" //nolint:gosec // the name of an error
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

// Status returns the HTTP status of the code.
func (c Code) Status() int { s, _ := c.meaning(); return s }

// Error returns the standard message of the code.
func (c Code) Error() string { _, m := c.meaning(); return m }

// New returns an error with the code and its own message, a sentence that states the remedy.
func (c Code) New(message string) *Error { return &Error{Code: c, Message: message} }

// meaning returns the row of the code in the table of all codes.
func (c Code) meaning() (status int, message string) {
	switch c {
	case InvalidRequest:
		return http.StatusBadRequest, "The request cannot be parsed."
	case ValidationFailed:
		return http.StatusBadRequest, "Some fields are invalid: see data.fields."

	case Unauthenticated:
		return http.StatusUnauthorized, "Sign in, and send the access token as \"Authorization: Bearer TOKEN\"."
	case TokenExpired:
		return http.StatusUnauthorized, "The token has expired: refresh it, or sign in again."
	case TokenRevoked:
		return http.StatusUnauthorized, "The token was revoked: sign in again."
	case InvalidCredentials:
		return http.StatusUnauthorized, "The username or the password is incorrect."
	case RefreshReused:
		return http.StatusUnauthorized, "The refresh token was used before: use the newest one, or sign in again."

	case Forbidden:
		return http.StatusForbidden, "Your role does not allow this: ask an administrator."
	case AccountDisabled:
		return http.StatusForbidden, "The account is disabled: ask an administrator."
	case BuiltinReadonly:
		return http.StatusForbidden, "Built-in objects cannot be changed: create your own."

	case PasswordChangeRequired:
		return http.StatusForbidden, "The password was set by an admin: change it first."

	case NotFound:
		return http.StatusNotFound, "The path does not exist."
	case InviteInvalid:
		return http.StatusNotFound, "The invitation is not valid or no longer valid: ask for a new one."

	case Conflict:
		return http.StatusConflict, "The request conflicts with the current state: read it again."
	case NameTaken:
		return http.StatusConflict, "The name is taken: choose another."
	case AlreadyInitialized:
		return http.StatusConflict, "The hub is set up already: sign in."
	case ToolInUse:
		return http.StatusConflict, "Agents use this tool: remove it from the agents in data.agents first."
	case InUse:
		return http.StatusConflict, "Agents use this: remove it from the agents in data.agents first."
	case DefaultTenantInUse:
		return http.StatusConflict, "This is the default organization, and others exist: make another one the default first."
	case LastAdmin:
		return http.StatusConflict, "This is the last active administrator: make another user administrator first."
	case AgentNotDeployed:
		return http.StatusConflict, "The agent is not deployed: deploy it first."
	case AgentDeployed:
		return http.StatusConflict, "The agent is deployed: delete the deployment first."
	case DeploymentKeyTaken:
		return http.StatusConflict, "Another agent has this deployment key: choose another name."

	case MethodNotAllowed:
		return http.StatusMethodNotAllowed, "The path does not support the method: see the Allow header."
	case PreconditionFailed:
		return http.StatusPreconditionFailed, "The object was changed: read it again, and send the new version in If-Match."
	case PayloadTooLarge:
		return http.StatusRequestEntityTooLarge, "The body is too large."
	case UnsupportedMedia:
		return http.StatusUnsupportedMediaType, "The body must be JSON: send \"Content-Type: application/json\"."
	case ArtifactInvalid:
		return http.StatusUnprocessableEntity, "The file cannot be used."
	case RateLimited:
		return http.StatusTooManyRequests, "Too many requests: wait for the time in Retry-After."

	case UpstreamFailed:
		return http.StatusBadGateway, "The service behind the hub failed: try again."
	case GatewayFailed:
		return http.StatusBadGateway, "The gateway failed: try again."
	case DeployerUnavailable:
		return http.StatusServiceUnavailable, "The deployer cannot be reached: try again."
	case Unavailable:
		return http.StatusServiceUnavailable, "The hub is unavailable: try again."
	default: // InternalError and unknown codes
		return http.StatusInternalServerError, "An internal error occurred: the log of the hub has its cause, with this requestId."
	}
}
