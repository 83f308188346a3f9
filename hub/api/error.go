package api

import (
	"time"
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
}

// Of returns the code as an error of a request by the caller. [Config.Denied] records such a
// request even if it was rejected before a route admitted the caller.
func (c Code) Of(caller Caller) *Error { return &Error{Code: c, Caller: &caller} }

// SystemTenant has the audit entries that belong to no organization.
const SystemTenant = "system"

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
