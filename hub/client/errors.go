package client

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/outbound"
)

// Code is the stable identifier of an error of the hub. It is an error itself, for errors.Is.
type Code string

func (c Code) Error() string { return string(c) }

// Codes of the hub.
const (
	InvalidRequest         Code = "invalid_request"
	ValidationFailed       Code = "validation_failed" // see [Error.Fields]
	Unauthenticated        Code = "unauthenticated"
	TokenExpired           Code = "token_expired"
	TokenRevoked           Code = "token_revoked"
	InvalidCredentials     Code = "invalid_credentials"
	RefreshReused          Code = "refresh_reused"
	Forbidden              Code = "forbidden"
	AccountDisabled        Code = "account_disabled"
	BuiltinReadonly        Code = "builtin_readonly"
	PasswordChangeRequired Code = "password_change_required"
	NotFound               Code = "not_found"
	InviteInvalid          Code = "invite_invalid"
	MethodNotAllowed       Code = "method_not_allowed"
	PreconditionFailed     Code = "precondition_failed" // the version is no longer the stored one
	PayloadTooLarge        Code = "payload_too_large"
	UnsupportedMedia       Code = "unsupported_media"
	ArtifactInvalid        Code = "artifact_invalid" // the file is not a tool or a skill
	Conflict               Code = "conflict"
	NameTaken              Code = "name_taken"
	AlreadyInitialized     Code = "already_initialized"
	ToolInUse              Code = "tool_in_use" // see [Error.Agents]
	InUse                  Code = "in_use"      // see [Error.Agents]
	DefaultTenantInUse     Code = "default_tenant_in_use"
	LastAdmin              Code = "last_admin"
	AgentNotDeployed       Code = "agent_not_deployed"
	AgentDeployed          Code = "agent_deployed"
	DeploymentKeyTaken     Code = "deployment_key_taken"
	RateLimited            Code = "rate_limited" // see [Error.RetryAfter]
	InternalError          Code = "internal_error"
	UpstreamFailed         Code = "upstream_failed" // the runtime or the model provider failed
	GatewayFailed          Code = "gateway_failed"
	DeployerUnavailable    Code = "deployer_unavailable"
	Unavailable            Code = "unavailable"
)

// Error is an error response of the hub.
type Error struct {
	Status     int
	Code       Code              // empty if a proxy responded
	Message    string            // for people
	Fields     map[string]string // the fault of each invalid field
	Agents     []string          // the agents that use the object
	RequestID  string            // also in the log of the hub
	RetryAfter time.Duration     // 0 if the response has no Retry-After
}

// Is reports whether target is the code of the error.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

func (e *Error) Error() string {
	text := fmt.Sprintf("hub responded with %d", e.Status)
	switch {
	case e.Message != "":
		text += ": " + e.Message
	case http.StatusText(e.Status) != "":
		text += " " + http.StatusText(e.Status)
	}
	if e.Code != "" {
		text += " (" + string(e.Code) + ")"
	}
	return text
}

// temporary reports whether the request may succeed later.
func (e *Error) temporary() bool {
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// maxErrorValues bounds the values of an error response.
const maxErrorValues = 1 << 14

// failure returns the error of a response.
func failure(res *http.Response, data []byte) error {
	e := &Error{Status: res.StatusCode, RetryAfter: outbound.RetryAfter(res.Header), RequestID: res.Header.Get("X-Request-Id")}
	if err := (jsonlimit.Limit{Values: maxErrorValues}).Check(data); err != nil {
		return errors.Join(e, err)
	}
	var body struct {
		Code      Code   `json:"code"`
		Message   string `json:"message"`
		RequestID string `json:"requestId"`
		Data      struct {
			Fields map[string]string `json:"fields"`
			Agents []string          `json:"agents"`
		} `json:"data"`
	}
	_ = jsonlimit.Unmarshal(data, &body) // a proxy may send any body
	e.Code = body.Code
	e.Message = body.Message
	e.Fields = body.Data.Fields
	e.Agents = body.Data.Agents
	if body.RequestID != "" {
		e.RequestID = body.RequestID
	}
	return e
}
