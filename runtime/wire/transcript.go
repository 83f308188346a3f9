package wire

import (
	"encoding/json"
	"time"
)

// Transcript is the body of GET /v1/sessions/:sessionId: what happened in a session, in pages.
type Transcript struct {
	SessionID string            `json:"sessionId"`
	AgentID   string            `json:"agentId"`
	CreatedAt Time              `json:"createdAt"`
	Entries   []TranscriptEntry `json:"entries"`
	Total     int64             `json:"total"`          // the seq of the last entry of the session
	Next      int64             `json:"next,omitempty"` // the value of after for the next page, 0 after the last one
}

// Types of a [TranscriptEntry].
const (
	EntryMessage    = "message"    // Role and Content
	EntryEvent      = "event"      // Event
	EntryCompaction = "compaction" // Summary and Kept
)

// TranscriptEntry is a message, an event or a compaction. An event is that of the run's stream
// without the texts that the messages have.
type TranscriptEntry struct {
	Seq   int64  `json:"seq"`
	Time  Time   `json:"time,omitzero"`   // absent from messages of a former version
	RunID string `json:"runId,omitempty"` // absent from entries of a former version
	Type  string `json:"type"`

	Role    string            `json:"role,omitempty"`
	Content []TranscriptBlock `json:"content,omitempty"`
	Event   json.RawMessage   `json:"event,omitempty"`

	// Summary replaces the messages before it for the model, except the last Kept ones.
	Summary string `json:"summary,omitempty"`
	Kept    int    `json:"kept,omitempty"`
}

// TranscriptBlock is one block of a message: text, thinking, tool_use or tool_result.
type TranscriptBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Thinking  string          `json:"thinking,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Output    string          `json:"output,omitempty"`
	Images    int             `json:"images,omitempty"` // the number of images of a result, which are not included
	IsError   bool            `json:"is_error,omitempty"`
	Truncated bool            `json:"truncated,omitempty"` // the text is shortened, or the input is omitted
}

// Time is a time in UTC with six digits of the second.
type Time time.Time

const timeLayout = "2006-01-02T15:04:05.000000Z"

// IsZero reports whether the time is absent.
func (t Time) IsZero() bool { return time.Time(t).IsZero() }

// MarshalJSON encodes the time.
func (t Time) MarshalJSON() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, `"`+timeLayout+`"`), nil
}

// UnmarshalJSON decodes a time of RFC 3339.
func (t *Time) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, (*time.Time)(t)) }
