package model

import (
	"fmt"
	"time"
)

// Code sorts upstream failures. Its values stand in the errorType of the runtime API.
type Code string

const (
	CodeConnection     Code = "connection"      // no connection, or one that broke off in mid-stream
	CodeRateLimit      Code = "rate_limit"      // 429
	CodeOverloaded     Code = "overloaded"      // 529, overloaded_error
	CodeServer         Code = "server"          // any other 5xx, or an answer that is not the wire format
	CodeAuth           Code = "auth"            // 401, 403
	CodePromptTooLong  Code = "prompt_too_long" // the conversation does not fit the context window
	CodeInvalidRequest Code = "invalid_request" // any other 4xx
	CodeUnknown        Code = "unknown"         // upstream told an error of a kind that is not known
	CodeTimeout        Code = "timeout"         // upstream was silent for too long
)

// Error is a failure of the upstream.
type Error struct {
	Code       Code
	Status     int           // HTTP status of the answer, 0 without one; 200 where the error came in mid-stream
	Message    string        // one line that may be shown to a client: no key, no address
	RetryAfter time.Duration // what upstream asked to wait, 0 where it did not
	Err        error         // the cause, for the log alone; may be nil
}

// Error gives the message with its code. The cause is left to the log: errors.Unwrap.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

func (e *Error) Unwrap() error { return e.Err }
