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
	text := string(e.Code)
	if e.Code == "" {
		text = fmt.Sprintf("status %d %s", e.Status, cmp.Or(e.Message, http.StatusText(e.Status)))
	} else if e.Message != "" {
		text += ": " + e.Message
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

// Code is the stable identifier of an error. It is an error itself: errors.Is(err,
// wire.NotFound) matches an [*Error] with the code.
type Code string

// Codes that programs act upon. openapi.yaml has the others, which are compared as
// Code("last_admin").
const (
	InvalidRequest   Code = "invalid_request"   // the request cannot be parsed
	ValidationFailed Code = "validation_failed" // the values of fields are invalid: see [ErrorData]

	Unauthenticated Code = "unauthenticated"
	TokenExpired    Code = "token_expired"
	TokenRevoked    Code = "token_revoked"
	Forbidden       Code = "forbidden"

	NotFound           Code = "not_found"
	Conflict           Code = "conflict"
	NameTaken          Code = "name_taken"
	PreconditionFailed Code = "precondition_failed"

	RateLimited Code = "rate_limited" // see [Error]
	Unavailable Code = "unavailable"
)

// Error returns the code.
func (c Code) Error() string { return string(c) }

// New returns an error with the code and its own message, a sentence that states the remedy.
func (c Code) New(message string) *Error { return &Error{Code: c, Message: message} }
