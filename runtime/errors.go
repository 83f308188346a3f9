package runtime

import (
	"errors"
	"net/http"
	"syscall"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Error is a rejected request. It is the error that [Runtime.Run] yields, and the response over
// HTTP.
type Error struct {
	Status int // of HTTP
	Body   wire.ErrorBody
}

func (e *Error) Error() string {
	if e.Body.Reason != "" {
		return e.Body.Error + ": " + e.Body.Reason
	}

	return e.Body.Error
}

// Rejection returns the status and the body, for handlers that do not import this package.
func (e *Error) Rejection() (status int, body wire.ErrorBody) { return e.Status, e.Body }

func reject(status int, message string) *Error {
	return &Error{status, wire.ErrorBody{Error: message}}
}

var (
	errAgentNotFound    = reject(http.StatusNotFound, "Agent not found")
	errAgentUnavailable = reject(http.StatusServiceUnavailable, "Agent unavailable")
	errRunNotFound      = reject(http.StatusNotFound, "Run not found")
	errRunIDFormat      = reject(http.StatusBadRequest, "Invalid runId format")
	errTooManyRuns      = reject(http.StatusServiceUnavailable, "Too many runs")
	errDraining         = reject(http.StatusServiceUnavailable, "Draining")
	errTooManyUploads   = reject(http.StatusServiceUnavailable, "Too many uploads")
	errReplicas         = reject(http.StatusServiceUnavailable, "Replicas unavailable")
	errDiskFull         = reject(http.StatusServiceUnavailable, "Disk full")
	errNotAcceptable    = reject(http.StatusNotAcceptable, "Not acceptable")
)

func invalid(message string) *Error {
	return reject(http.StatusBadRequest, "Invalid request: "+message)
}

func errSessionBusy(id string) *Error {
	return &Error{http.StatusConflict, wire.ErrorBody{Error: runvalue.SessionBusy, SessionID: id}}
}

func errNotWaiting(id string) *Error {
	return &Error{http.StatusConflict, wire.ErrorBody{Error: runvalue.NotWaiting, SessionID: id}}
}

// errCallChanged is the error of answers to a call that can no longer be executed as it was shown.
func errCallChanged(id, reason string) *Error {
	return &Error{http.StatusConflict, wire.ErrorBody{Error: runvalue.CallChanged, SessionID: id, Reason: reason}}
}

func forbidden(reason string) *Error {
	return &Error{http.StatusForbidden, wire.ErrorBody{Error: "Forbidden", Reason: reason}}
}

func unauthorized(reason string) *Error {
	return &Error{http.StatusUnauthorized, wire.ErrorBody{Error: "Unauthorized", Reason: reason}}
}

// internal returns the error that a client receives for an internal failure. The log has the
// details.
func internal(requestID string) *Error {
	return &Error{http.StatusInternalServerError, wire.ErrorBody{Error: "Internal error", RequestID: requestID}}
}

// fail responds with an error.
func (rt *Runtime) fail(w http.ResponseWriter, r *http.Request, err error) {
	var known *Error
	var body *httpapi.BodyError
	switch {
	case errors.As(err, &known):
	case errors.As(err, &body):
		known = invalid(body.Message)
	case errors.Is(err, httpapi.ErrTooLarge):
		known = reject(http.StatusRequestEntityTooLarge, "Request body too large")
	case errors.Is(err, httpapi.ErrNotFound):
		known = reject(http.StatusNotFound, "Not found")
	case errors.Is(err, httpapi.ErrMethodNotAllowed):
		known = reject(http.StatusMethodNotAllowed, "Method not allowed")
	case errors.Is(err, syscall.ENOSPC):
		rt.cfg.Logger.Error("request failed", "err", err, "method", r.Method, "path", r.URL.Path, "request_id", httpapi.RequestID(w))
		known = errDiskFull
	default:
		id := httpapi.RequestID(w)
		rt.cfg.Logger.Error("request failed", "err", err, "method", r.Method, "path", r.URL.Path, "request_id", id)
		known = internal(id)
	}

	w.Header()["Cache-Control"] = noStore // the handler may have set another before it failed
	if known == errTooManyRuns || known == errTooManyUploads || known == errReplicas || known == errMemory {
		w.Header().Set("Retry-After", "1")
	}

	_ = httpapi.WriteJSON(w, known.Status, known.Body) // a struct of strings can be encoded
}
