package wire

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// RunRequest is the body of POST /v1/agents/:agentId/runs.
type RunRequest struct {
	Message   string     `json:"message"` // may be empty next to Content and Answers
	Stream    StreamMode `json:"stream,omitzero"`
	SessionID *string    `json:"sessionId,omitempty"` // continues this conversation
	RunID     *string    `json:"runId,omitempty"`     // a UUID chosen by the caller
	MaxTurns  *int       `json:"maxTurns,omitempty"`  // can only lower the agent's limit
	TimeoutMs *int64     `json:"timeoutMs,omitempty"` // can only lower runTimeout
	Metadata  Metadata   `json:"metadata,omitempty"`  // copied to logs and traces
	History   []Turn     `json:"history,omitempty"`   // seeds a new session

	// Content are further parts of the message. They follow Message, which may be empty.
	Content []ContentPart `json:"content,omitempty"`

	// RequireSession rejects the run with "Unknown session" if there is no session with SessionID.
	RequireSession bool `json:"requireSession,omitempty"`

	// AfterRunID rejects the run with "Session changed" if the last run of the session is another one.
	AfterRunID *string `json:"afterRunId,omitempty"`

	// Store reports whether the conversation is stored, so that a later run can continue it. Nil
	// means that the runtime decides, which stores it unless it is configured otherwise.
	Store *bool `json:"store,omitempty"`

	// OutputSchema is the JSON Schema of an object, at most 64 KiB, for an agent that has none. The
	// text of the last message is then JSON that matches it.
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`

	// Inputs are the kinds of [Pending] that the caller can answer. The run may end waiting for them.
	Inputs []string `json:"inputs,omitempty"`
	// ClientTools are tools that the client calls, at most 64 and 256 KiB together. Inputs must have
	// their kind.
	ClientTools []ClientTool `json:"clientTools,omitempty"`
	// Answers has one for each Pending of the session. Without a message, an empty list that is not
	// nil asks what waits, by an error.
	Answers []Answer `json:"answers,omitzero"`
}

// Turn is one message of the history of a run request. The first turn is of the role user, the last
// one of assistant, and the roles alternate.
type Turn struct {
	Role    string        `json:"role"`
	Content string        `json:"content"`         // may be empty next to Parts
	Parts   []ContentPart `json:"parts,omitempty"` // of a turn of the user, after Content
}

// ContentPart is a part of a message of the user. An image or a file has either Data or UploadID.
type ContentPart struct {
	Type      string `json:"type"`                // text, image or file
	Text      string `json:"text,omitempty"`      // of a text
	Name      string `json:"name,omitempty"`      // of an image or a file, for the model
	MediaType string `json:"mediaType,omitempty"` // that of the bytes, or empty
	Data      []byte `json:"data,omitempty"`      // in base64
	UploadID  string `json:"uploadId,omitempty"`  // of an [Upload]
}

// Upload is the response to POST /v1/uploads.
type Upload struct {
	ID        string `json:"id"` // for ContentPart.UploadID
	Name      string `json:"name,omitempty"`
	MediaType string `json:"mediaType"`
	Size      int    `json:"size"`   // in bytes
	SHA256    string `json:"sha256"` // of the bytes, in hexadecimal
}

// Metadata are values that a client can search for in logs and traces.
type Metadata map[string]string

// UnmarshalJSON decodes an object of strings.
func (m *Metadata) UnmarshalJSON(data []byte) error {
	var values map[string]string
	if jsonlimit.Unmarshal(data, &values) != nil {
		return errors.New("metadata must be an object whose values are strings")
	}

	*m = values
	return nil
}

// StreamMode is the value of the field stream. Its zero value means that the field is absent.
type StreamMode string

const (
	StreamRaw   StreamMode = "raw"   // events with partial messages; also true
	StreamBlock StreamMode = "block" // events without partial messages
	StreamOff   StreamMode = "off"   // one JSON response; false in the JSON
)

var errStream = errors.New(`stream must be true, false, "raw" or "block"`)

// MarshalJSON encodes false for [StreamOff] and the name of any other mode.
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

// UnmarshalJSON decodes true, false, "raw" and "block". null means that the field is absent.
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

// RunResponse is the body of a blocking run, also of a failed or cancelled one.
type RunResponse struct {
	RunID     string `json:"runId"`
	SessionID string `json:"sessionId"`
	State     State  `json:"state"`            // completed, failed or cancelled
	Reason    Reason `json:"reason,omitempty"` // of a cancelled run
	Text      string `json:"text"`             // the last text of the assistant, possibly incomplete

	// Structured is the object in Text, of a completed run with an output schema. It is absent if the
	// model refused to respond, or if the run waits.
	Structured json.RawMessage `json:"structured,omitempty"`

	Usage      Usage     `json:"usage"`
	NumTurns   int       `json:"numTurns"`
	DurationMs int64     `json:"durationMs"`
	StopReason string    `json:"stopReason,omitempty"`
	Pending    []Pending `json:"pending,omitempty"` // with the stop reason input_required
	Error      string    `json:"error,omitempty"`   // the first of Errors
	ErrorType  string    `json:"errorType,omitempty"`
	Errors     []string  `json:"errors,omitempty"`
}
