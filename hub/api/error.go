package api

import (
	"time"
)

// Error is an error with what a client gets to know of it.
type Error struct {
	Code       Code
	Message    string        // "" is the code's
	Status     int           // 0 is the code's
	Data       any           // to JSON; nil is none
	RetryAfter time.Duration // of 429 and 503, rounded up to seconds; at least 1 s
	Cause      error         // for the log, and for errors.Is; no client sees it
}

func (e *Error) Error() string {
	text := string(e.Code) + ": " + e.message()
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Is makes errors.Is(err, code) hold.
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

// errorBody is every error on the wire.
type errorBody struct {
	Code      Code   `json:"code"`
	Message   string `json:"message"`
	Data      any    `json:"data,omitempty"`
	RequestID string `json:"requestId"`
}

type fieldFaults struct {
	Fields map[string]string `json:"fields"`
}
