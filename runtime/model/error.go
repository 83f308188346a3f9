package model

import (
	"fmt"
	"time"
)

// Code classifies upstream failures. Its values are those of errorType in the runtime API.
type Code string

const (
	CodeConnection     Code = "connection"      // no connection, or it was lost during the response
	CodeRateLimit      Code = "rate_limit"      // 429
	CodeOverloaded     Code = "overloaded"      // 529, overloaded_error
	CodeServer         Code = "server"          // any other 5xx, or a response that is not in the wire format
	CodeAuth           Code = "auth"            // 401, 403
	CodePromptTooLong  Code = "prompt_too_long" // the conversation does not fit the context window
	CodeInvalidRequest Code = "invalid_request" // any other 4xx
	CodeUnknown        Code = "unknown"         // upstream returned an error of an unknown kind
	CodeTimeout        Code = "timeout"         // upstream sent nothing for too long
)

// Error is a failure of the upstream.
type Error struct {
	Code       Code
	Status     int           // HTTP status of the response, 0 without one; 200 for an error in the stream
	Message    string        // one line that may be shown to a client: no key, no address
	RetryAfter time.Duration // the wait that upstream requests, 0 for none
	Err        error         // the cause, only for the log; may be nil
}

// Error returns the code and the message. The cause is available through errors.Unwrap.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

func (e *Error) Unwrap() error { return e.Err }
