// Package wire holds every JSON shape that crosses the network between a runtime and its
// callers: the events of a run, the run request and the blocking answer, agent list and
// detail, cancel, health and errors. Server and client use the same types, so that no shape is
// written twice.
//
// [AppendEvent] and [DecodeEvent] are the two halves of the event format.
package wire

import "github.com/seed93082962/agenthost/runtime/model"

// State is where a run stands.
type State string

const (
	StateRunning    State = "running" // never sent: a run in progress has no answer yet
	StateCancelling State = "cancelling"
	StateCancelled  State = "cancelled"
	StateCompleted  State = "completed"
	StateFailed     State = "failed"
)

// Terminal reports whether a run in that state has ended.
func (s State) Terminal() bool {
	return s == StateCancelled || s == StateCompleted || s == StateFailed
}

// Reason says why a run was cancelled.
type Reason string

const (
	ReasonClientRequest Reason = "client_request" // the cancel endpoint was called
	ReasonDisconnect    Reason = "disconnect"     // the caller of the run went away
	ReasonShutdown      Reason = "shutdown"       // the runtime is going down
)

// Error types of a failed run, beside the codes of package model.
const (
	ErrorTypeMaxTurns  = "error_max_turns"
	ErrorTypeExecution = "error_during_execution"
	ErrorTypeTimeout   = string(model.CodeTimeout)
)

// Usage counts the tokens of a message or of a whole run.
type Usage = model.Usage

// CancelAnswer is the body of 202 and 409 of POST /v1/runs/:runId/cancel.
type CancelAnswer struct {
	RunID  string `json:"runId"`
	State  State  `json:"state"`
	Reason Reason `json:"reason,omitempty"` // from the second call on
}

// Health is the body of GET /health.
type Health struct {
	Status   string `json:"status"` // ok, or degraded when an agent is unavailable; draining from /health/ready
	Agents   int    `json:"agents"`
	UptimeMs int64  `json:"uptimeMs"`
	Version  string `json:"version"`
}

// Readiness is the body of GET /health/ready.
type Readiness struct {
	Status string `json:"status"` // ready, or draining with status 503
}

// ErrorBody is the body of every answer that tells an error and nothing else.
type ErrorBody struct {
	Error     string `json:"error"`
	Reason    string `json:"reason,omitempty"`    // with 401 and 403
	RunID     string `json:"runId,omitempty"`     // with Run ID conflict
	SessionID string `json:"sessionId,omitempty"` // with Session busy
	RequestID string `json:"requestId,omitempty"` // with 500: the line of the log that tells more
}
