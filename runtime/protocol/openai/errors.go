package openai

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// failure is an error for the client.
type failure struct {
	status      int
	message     string
	param, code string // null if they are empty
	ran         bool   // a run was executed: clients must not repeat the request on their own
	retryAfter  time.Duration
}

func (f *failure) Error() string { return f.message }

// errorBody is the body of an error, and the last event of a stream that fails.
type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (f *failure) body() errorBody {
	body := errorBody{errorDetail{Message: f.message, Type: "invalid_request_error"}}
	switch {
	case f.status >= http.StatusInternalServerError:
		body.Error.Type = "server_error"
	case f.status == http.StatusTooManyRequests:
		body.Error.Type = "rate_limit_error"
	}

	if f.param != "" {
		body.Error.Param = &f.param
	}

	if f.code != "" {
		body.Error.Code = &f.code
	}

	return body
}

// Codes of errors that clients know.
const (
	codeModel       = "model_not_found"
	codeKey         = "invalid_api_key"
	codeUnsupported = "unsupported_parameter"
	codeContext     = "context_length_exceeded"
	codeRate        = "rate_limit_exceeded"
	codeCancelled   = "cancelled"
)

// invalid returns the error of a field of the request.
func invalid(param, message string) error {
	return &failure{status: http.StatusBadRequest, message: param + " " + message, param: param}
}

// unsupported returns the error of a field that a client may not set.
func unsupported(param, reason string) error {
	return &failure{status: http.StatusBadRequest, message: param + " is not supported: " + reason, param: param, code: codeUnsupported}
}

// rejection is an error of a host that names its response.
type rejection interface {
	error
	Rejection() (status int, body wire.ErrorBody)
}

// rejected returns the error of a host as that of this protocol.
func rejected(err rejection) *failure {
	status, body := err.Rejection()
	f := &failure{status: status, message: strings.TrimPrefix(body.Error, "Invalid request: ")}
	f.message = strings.NewReplacer("clientTools", "tools", "outputSchema", "the schema of the format").Replace(f.message)
	if f.message == body.Error { // it has no details
		f.code = strings.ReplaceAll(strings.ToLower(body.Error), " ", "_")
	}

	if host, ok := err.(interface{ RetryAfter() time.Duration }); ok {
		f.retryAfter = host.RetryAfter()
	}

	if body.Reason != "" {
		f.message += ": " + body.Reason
	}

	switch {
	case status == http.StatusUnauthorized:
		f.message, f.code = "the API key is missing or not valid: send it as Authorization: Bearer", codeKey
	case body.Error == "Agent not found":
		f.message, f.param, f.code = "there is no agent with this id", "model", codeModel
	}

	return f
}

// Fail responds with an error.
func (s *server) Fail(w http.ResponseWriter, _ *http.Request, err error) {
	f := s.failureOf(w, err)
	if f.ran {
		w.Header().Set("X-Should-Retry", "false")
	}

	switch {
	case f.retryAfter > 0:
		seconds := (min(f.retryAfter, maxRetryAfter) + time.Second - 1) / time.Second
		w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	case f.status == http.StatusServiceUnavailable && !f.ran:
		w.Header().Set("Retry-After", "1")
	}

	_ = httpapi.WriteJSON(w, f.status, f.body()) // a struct of strings can be encoded
}

// maxRetryAfter bounds the wait that a host requests: a budget may last for a month.
const maxRetryAfter = 31 * 24 * time.Hour

// failureOf returns the error as the client receives it. The log has an internal error.
func (s *server) failureOf(w http.ResponseWriter, err error) *failure {
	var (
		f    *failure
		host rejection
		body *httpapi.BodyError
	)
	switch {
	case errors.As(err, &f):
	case errors.As(err, &host):
		f = rejected(host)
	case errors.As(err, &body):
		f = &failure{status: http.StatusBadRequest, message: body.Message, param: body.Field}
	case errors.Is(err, httpapi.ErrTooLarge):
		f = &failure{status: http.StatusRequestEntityTooLarge, message: "the request body is too large"}
	case errors.Is(err, httpapi.ErrNotFound):
		f = &failure{status: http.StatusNotFound, message: "there is no such path"}
	case errors.Is(err, httpapi.ErrMethodNotAllowed):
		f = &failure{status: http.StatusMethodNotAllowed, message: "the method is not allowed"}
	default:
		id := httpapi.RequestID(w)
		s.cfg.Logger.Error("request failed", "err", err, "request_id", id)
		f = &failure{status: http.StatusInternalServerError, message: "internal error, request " + id}
	}

	return f
}

// failed returns the error of a run that failed.
func failed(p *wire.Result) *failure {
	f := &failure{status: http.StatusBadGateway, message: "the run failed", code: p.ErrorType, ran: true}
	if len(p.Errors) > 0 {
		f.message = p.Errors[0]
	}

	f.retryAfter = time.Duration(min(p.RetryAfterMs, maxRetryAfter.Milliseconds())) * time.Millisecond

	switch p.ErrorType {
	case runvalue.ErrorTypeRateLimit:
		f.status, f.code = http.StatusTooManyRequests, codeRate
		f.ran = p.NumTurns != 1 || p.TotalTurns > 0 // otherwise, the first call of the model: no tool was executed
	case runvalue.ErrorTypePromptTooLong:
		f.status, f.code = http.StatusBadRequest, codeContext
	}

	return f
}
