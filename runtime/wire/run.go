package wire

import (
	"encoding/json"
	"errors"
	"fmt"
)

// RunRequest is the body of POST /v1/agents/:agentId/runs.
type RunRequest struct {
	Message   string     `json:"message"`
	Stream    StreamMode `json:"stream,omitzero"`
	SessionID string     `json:"sessionId,omitempty"` // continues that conversation
	RunID     string     `json:"runId,omitempty"`     // a UUID chosen by the caller
	MaxTurns  *int       `json:"maxTurns,omitempty"`  // may only tighten the agent's own limit
	TimeoutMs *int64     `json:"timeoutMs,omitempty"` // may only tighten runTimeout
	Metadata  Metadata   `json:"metadata,omitempty"`  // copied to logs and traces
}

// Metadata is what a caller wants to find again in logs and traces.
type Metadata map[string]string

// UnmarshalJSON takes an object of strings.
func (m *Metadata) UnmarshalJSON(data []byte) error {
	var values map[string]string
	if json.Unmarshal(data, &values) != nil {
		return errors.New("metadata must be an object whose values are strings")
	}
	*m = values
	return nil
}

// StreamMode is the value of the field stream. Its zero value is the field left out.
type StreamMode string

const (
	StreamRaw   StreamMode = "raw"   // events with partial messages; true says the same
	StreamBlock StreamMode = "block" // events of whole messages only
	StreamOff   StreamMode = "off"   // one JSON answer; false on the wire
)

var errStream = errors.New(`stream must be true, false, "raw" or "block"`)

// MarshalJSON writes false for [StreamOff], and the name of any other mode.
func (m StreamMode) MarshalJSON() ([]byte, error) {
	switch m {
	case StreamOff:
		return []byte("false"), nil
	case StreamBlock:
		return []byte(`"block"`), nil
	case StreamRaw, "":
		return []byte(`"raw"`), nil
	}
	return nil, fmt.Errorf("unknown stream mode %q", string(m))
}

// UnmarshalJSON takes true, false, "raw" and "block"; null is the field left out.
func (m *StreamMode) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "null":
		return nil
	case "true", `"raw"`:
		*m = StreamRaw
	case "false":
		*m = StreamOff
	case `"block"`:
		*m = StreamBlock
	default:
		return errStream
	}
	return nil
}

// RunAnswer is the body of a blocking run, whatever came of it.
type RunAnswer struct {
	RunID      string   `json:"runId"`
	SessionID  string   `json:"sessionId"`
	State      State    `json:"state"`            // completed, failed or cancelled
	Reason     Reason   `json:"reason,omitempty"` // of a cancelled run
	Text       string   `json:"text"`             // the last text of the assistant, also a partial one
	Usage      Usage    `json:"usage"`
	NumTurns   int      `json:"numTurns"`
	DurationMs int64    `json:"durationMs"`
	StopReason string   `json:"stopReason,omitempty"`
	Error      string   `json:"error,omitempty"` // the first of Errors
	ErrorType  string   `json:"errorType,omitempty"`
	Errors     []string `json:"errors,omitempty"`
}
