package runtime

import (
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Error is a request that was refused: how it is answered over HTTP, and what [Runtime.Run] yields.
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

func refuse(status int, message string) *Error {
	return &Error{status, wire.ErrorBody{Error: message}}
}

var (
	errAgentNotFound    = refuse(http.StatusNotFound, "Agent not found")
	errAgentUnavailable = refuse(http.StatusServiceUnavailable, "Agent unavailable")
	errRunNotFound      = refuse(http.StatusNotFound, "Run not found")
	errRunIDFormat      = refuse(http.StatusBadRequest, "Invalid runId format")
	errTooManyRuns      = refuse(http.StatusServiceUnavailable, "Too many runs")
	errDraining         = refuse(http.StatusServiceUnavailable, "Draining")
	errNotAcceptable    = refuse(http.StatusNotAcceptable, "Not acceptable")
)

func invalid(message string) *Error {
	return refuse(http.StatusBadRequest, "Invalid request: "+message)
}

func forbidden(reason string) *Error {
	return &Error{http.StatusForbidden, wire.ErrorBody{Error: "Forbidden", Reason: reason}}
}

func unauthorized(reason string) *Error {
	return &Error{http.StatusUnauthorized, wire.ErrorBody{Error: "Unauthorized", Reason: reason}}
}

// internal tells of a fault of ours, which the log tells more about.
func internal(requestID string) *Error {
	return &Error{http.StatusInternalServerError, wire.ErrorBody{Error: "Internal error", RequestID: requestID}}
}

// fail is the error adapter: the one place where an error becomes an answer.
func (rt *Runtime) fail(w http.ResponseWriter, r *http.Request, err error) {
	var known *Error
	var body *httpapi.BodyError
	switch {
	case errors.As(err, &known):
	case errors.As(err, &body):
		known = invalid(body.Message)
	case errors.Is(err, httpapi.ErrTooLarge):
		known = refuse(http.StatusRequestEntityTooLarge, "Request body too large")
	case errors.Is(err, httpapi.ErrNotFound):
		known = refuse(http.StatusNotFound, "Not found")
	case errors.Is(err, httpapi.ErrMethodNotAllowed):
		known = refuse(http.StatusMethodNotAllowed, "Method not allowed")
	default:
		id := httpapi.RequestID(w)
		rt.cfg.Logger.Error("request failed", "err", err, "method", r.Method, "path", r.URL.Path, "requestId", id)
		known = internal(id)
	}
	if known == errTooManyRuns {
		w.Header().Set("Retry-After", "1")
	}
	_ = httpapi.WriteJSON(w, known.Status, known.Body) // a struct of strings has a JSON form
}
