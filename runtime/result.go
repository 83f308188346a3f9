package runtime

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/runtime/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// result is the result of a run. It becomes the last events of a stream or a JSON response.
type result struct {
	*engine.Outcome
	info       RunInfo
	state      wire.State
	reason     wire.Reason // of a cancelled run
	subtype    string      // of the result event
	errorType  string
	message    string        // of the error, for the client
	retryAfter time.Duration // requested by upstream
	internal   bool          // the runtime failed, not the run
	duration   time.Duration
}

// newResult classifies the error of a run. The registry may still change the state to cancelled.
func newResult(info RunInfo, outcome *engine.Outcome, err error) *result {
	res := &result{Outcome: outcome, info: info, state: wire.StateFailed}
	var upstream *model.Error
	switch {
	case err == nil:
		res.state, res.subtype = wire.StateCompleted, wire.ResultSuccess
	case errors.As(err, &upstream):
		res.subtype, res.errorType = wire.ResultError, string(upstream.Code)
		res.message, res.retryAfter = upstream.Message, upstream.RetryAfter
	case errors.Is(err, engine.ErrMaxTurns):
		res.subtype, res.errorType, res.message = wire.ResultMaxTurns, wire.ErrorTypeMaxTurns, engine.ErrMaxTurns.Error()
	case errors.Is(err, engine.ErrRunTimeout):
		res.subtype, res.errorType, res.message = wire.ResultExecution, wire.ErrorTypeTimeout, engine.ErrRunTimeout.Error()
	default:
		res.subtype, res.errorType = wire.ResultExecution, wire.ErrorTypeExecution
		res.message, res.internal = "Internal error", true
	}
	return res
}

// event returns the event that reports the result.
func (res *result) event() wire.Payload {
	switch {
	case res.state == wire.StateCancelled:
		return &wire.Cancelled{Type: "cancelled", RunID: res.info.RunID, Reason: res.reason}
	case res.internal:
		return &wire.Fault{Type: "error", Error: res.message, ErrorType: res.errorType, RunID: res.info.RunID}
	}
	event := &wire.Result{
		Type: "result", Subtype: res.subtype, RunID: res.info.RunID, SessionID: res.info.SessionID,
		IsError: res.state == wire.StateFailed, NumTurns: res.NumTurns,
		DurationMs: res.duration.Milliseconds(), Usage: res.Usage,
	}
	if event.IsError {
		event.ErrorType, event.Errors = res.errorType, []string{res.message}
		return event
	}
	event.Result, event.StopReason = &res.Text, res.StopReason
	if event.PermissionDenials = res.Denials; res.Denials == nil {
		event.PermissionDenials = []wire.PermissionDenial{}
	}
	return event
}

// write responds with the result as JSON.
func (res *result) write(w http.ResponseWriter, requestID string) error {
	body := wire.RunResponse{
		RunID: res.info.RunID, SessionID: res.info.SessionID, State: res.state,
		Text: res.Text, Usage: res.Usage, NumTurns: res.NumTurns,
		DurationMs: res.duration.Milliseconds(), StopReason: res.StopReason,
	}
	status := http.StatusOK
	switch {
	case res.state == wire.StateCancelled:
		body.Reason = res.reason
	case res.internal:
		return internal(requestID)
	case res.state == wire.StateFailed:
		body.Error, body.ErrorType, body.Errors = res.message, res.errorType, []string{res.message}
		status = http.StatusBadGateway
		if res.errorType == string(model.CodeRateLimit) {
			status = http.StatusTooManyRequests
		}
		if res.retryAfter > 0 {
			seconds := (res.retryAfter + time.Second - 1) / time.Second
			w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
		}
	}
	return httpapi.WriteJSON(w, status, body)
}
