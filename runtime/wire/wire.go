// Package wire has the JSON types of the runtime API: the events of a run, the request and the JSON
// response of a run, agents, cancels, health and errors. The server and the client use the same
// types.
//
// [AppendEvent] encodes events, and [DecodeEvent] decodes them. Decoding takes time and memory in
// proportion to the data, which the caller limits.
package wire

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/runvalue"
)

// State is the state of a run.
type State string

const (
	StateCancelling State = "cancelling"
	StateCancelled  State = "cancelled"
	StateCompleted  State = "completed"
	StateFailed     State = "failed"
)

// Reason is the reason why a run was cancelled. It is also the cause with which the context of the
// run is cancelled.
type Reason string

func (r Reason) Error() string { return string(r) }

const (
	ReasonClientRequest Reason = "client_request" // the cancel endpoint was called
	ReasonDisconnect    Reason = "disconnect"     // the client of the run disconnected
	ReasonShutdown      Reason = "shutdown"       // the runtime shuts down
)

// Usage counts the tokens of a message or of a whole run. InputTokens does not include tokens that
// were read from or written to the prompt cache.
type Usage struct {
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`

	// ReasoningTokens are a part of OutputTokens. Only some models count them.
	ReasoningTokens int64 `json:"reasoning_tokens,omitempty"`

	// Estimated reports that a part of the tokens is an estimate: a call of the model had no final
	// usage.
	Estimated bool `json:"estimated,omitempty"`
}

// Add returns the sum of u and v. A count that would overflow is the largest one.
func (u Usage) Add(v Usage) Usage {
	u.InputTokens = add(u.InputTokens, v.InputTokens)
	u.OutputTokens = add(u.OutputTokens, v.OutputTokens)
	u.CacheCreationInputTokens = add(u.CacheCreationInputTokens, v.CacheCreationInputTokens)
	u.CacheReadInputTokens = add(u.CacheReadInputTokens, v.CacheReadInputTokens)
	u.ReasoningTokens = add(u.ReasoningTokens, v.ReasoningTokens)
	u.Estimated = u.Estimated || v.Estimated
	return u
}

func add(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64-a {
		return math.MaxInt64
	}

	return a + b
}

// RunUsage has the tokens of a run.
type RunUsage struct {
	Model  string           `json:"model"`            // of the agent
	Usage  Usage            `json:"usage"`            // of the whole run
	Others map[string]Usage `json:"others,omitempty"` // of subagents with other models, a part of Usage
}

// Header returns the usage as JSON of at most 3 KiB, which fits into a header. It names the models
// of subagents with the most tokens. The tokens of those that do not fit count for Model.
func (u RunUsage) Header() string {
	total := func(name string) int64 {
		o := u.Others[name]
		return add(add(add(o.InputTokens, o.CacheCreationInputTokens), o.CacheReadInputTokens), o.OutputTokens)
	}
	names := slices.SortedFunc(maps.Keys(u.Others), func(a, b string) int {
		return cmp.Or(cmp.Compare(total(b), total(a)), cmp.Compare(a, b))
	})
	name := excerpt.Head(u.Model, runvalue.MaxUsage/8) // JSON may need six bytes for one
	out := RunUsage{Model: name, Usage: u.Usage, Others: map[string]Usage{}}
	text, _ := json.Marshal(out) // strings and numbers
	for _, other := range names {
		out.Others[other] = u.Others[other]
		longer, _ := json.Marshal(out)
		if len(longer) > runvalue.MaxUsage {
			delete(out.Others, other)
			continue
		}

		text = longer
	}

	return string(text)
}

// CancelResponse is the body of 202 and 409 of POST /v1/runs/:runId/cancel.
type CancelResponse struct {
	RunID  string `json:"runId"`
	State  State  `json:"state"`
	Reason Reason `json:"reason,omitempty"` // not in the first response
}

// Health is the body of GET /health.
type Health struct {
	Status   string `json:"status"` // ok, or degraded when an agent or the bus of the replicas is unavailable; draining from /health/ready
	Agents   int    `json:"agents"`
	UptimeMs int64  `json:"uptimeMs"`
	Version  string `json:"version"`
}

// ErrorBody is the body of an error response. Failed runs have a [RunResponse] instead.
type ErrorBody struct {
	Error     string    `json:"error"`
	Reason    string    `json:"reason,omitempty"`    // with 401, 403 and Call changed
	RunID     string    `json:"runId,omitempty"`     // with Run ID conflict
	SessionID string    `json:"sessionId,omitempty"` // with Session busy, Unknown session, Not waiting and Call changed
	RequestID string    `json:"requestId,omitempty"` // with 500: also in the log line of the error
	Pending   []Pending `json:"pending,omitempty"`   // with 400: all that the session waits for, of which an answer is missing
}
