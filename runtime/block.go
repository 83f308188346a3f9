package runtime

import (
	"net/http"
	"strconv"
	"time"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// block answers a run as one JSON when it is over.
func (x *execution) block(w http.ResponseWriter) error {
	end := x.tell(func(wire.Event) bool { return true })
	answer := wire.RunAnswer{
		RunID: x.id, SessionID: x.sessionID, State: end.state,
		Text: end.Text, Usage: end.Usage, NumTurns: end.NumTurns,
		DurationMs: end.took.Milliseconds(), StopReason: end.StopReason,
	}
	status := http.StatusOK
	switch {
	case end.state == wire.StateCancelled:
		answer.Reason = end.reason
	case end.fault:
		return internal(x.requestID)
	case end.state == wire.StateFailed:
		answer.Error, answer.ErrorType, answer.Errors = end.message, end.errorType, []string{end.message}
		status = http.StatusBadGateway
		if end.errorType == string(model.CodeRateLimit) {
			status = http.StatusTooManyRequests
		}
		if end.retry > 0 {
			seconds := (end.retry + time.Second - 1) / time.Second
			w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
		}
	}
	return httpapi.WriteJSON(w, status, answer)
}
