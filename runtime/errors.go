package runtime

import (
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// apiError is an error that a client is told: its status and the body it gets.
type apiError struct {
	status int
	body   wire.ErrorBody
}

func (e *apiError) Error() string { return e.body.Error }

func refuse(status int, message string) *apiError {
	return &apiError{status, wire.ErrorBody{Error: message}}
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

func invalid(message string) *apiError {
	return refuse(http.StatusBadRequest, "Invalid request: "+message)
}

func forbidden(reason string) *apiError {
	return &apiError{http.StatusForbidden, wire.ErrorBody{Error: "Forbidden", Reason: reason}}
}

func unauthorized(reason string) *apiError {
	return &apiError{http.StatusUnauthorized, wire.ErrorBody{Error: "Unauthorized", Reason: reason}}
}

// fail is the error adapter: the one place where an error becomes an answer.
func (rt *Runtime) fail(w http.ResponseWriter, r *http.Request, err error) {
	var known *apiError
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
		known = &apiError{http.StatusInternalServerError, wire.ErrorBody{Error: "Internal error", RequestID: id}}
	}
	if known == errTooManyRuns { //nolint:errorlint // the very value, to which a header belongs
		w.Header().Set("Retry-After", "1")
	}
	_ = httpapi.WriteJSON(w, known.status, known.body) // a struct of strings has a JSON form
}
