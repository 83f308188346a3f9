// Package code has the error codes of the hub that programs do not compare, and the responses of
// all codes. The others are in hub/wire.
package code

import (
	"cmp"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/fault"
)

// package fault has all codes with their status, cause and remedy.
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

// Status returns the HTTP status of a code.
func Status(c wire.Code) int { return meaning(c).Status }

// meaning returns the status and the standard message of a code. An unknown one is internal.
func meaning(c wire.Code) fault.Fault {
	f, ok := fault.Find(fault.Hub, string(c))
	if !ok {
		f, _ = fault.Find(fault.Hub, string(InternalError))
	}

	return f
}

// Response returns the body of the response with an error, and its status.
func Response(e *wire.Error, requestID string) wire.Error {
	f := meaning(e.Code)
	return wire.Error{
		Code: e.Code, Message: cmp.Or(e.Message, f.Text()), Data: e.Data, RequestID: requestID,
		Status: cmp.Or(e.Status, f.Status),
	}
}
