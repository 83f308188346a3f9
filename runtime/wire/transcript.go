package wire

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/leaf/instant"
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

// UnmarshalJSON decodes a page of a runtime, which is not trusted. An entry that cannot be decoded
// is omitted.
func (t *Transcript) UnmarshalJSON(data []byte) error {
	type page Transcript
	in := struct {
		*page

		Entries jsonlimit.List[TranscriptEntry] `json:"entries"`
	}{page: (*page)(t)}
	err := jsonlimit.Unmarshal(data, &in)
	t.Entries = in.Entries.Items
	return err
}

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

// UnmarshalJSON decodes an entry of a runtime, which is not trusted: the event is that of a
// [Payload] and has no other members. An event of another type is omitted.
func (e *TranscriptEntry) UnmarshalJSON(data []byte) error {
	type entry TranscriptEntry
	if err := jsonlimit.Unmarshal(data, (*entry)(e)); err != nil {
		return err
	}

	for i := range e.Content {
		e.Content[i].clean()
	}

	if len(e.Event) == 0 {
		return nil
	}

	var event struct {
		Type string `json:"type"`
	}
	if err := jsonlimit.Unmarshal(e.Event, &event); err != nil {
		return err
	}

	payload, err := DecodeEvent(event.Type, e.Event)
	if err != nil {
		return err
	}

	e.Event = nil
	switch p := payload.(type) {
	case *Unknown, *Done, *PartialMessage: // a session has none
		return nil
	case *Assistant:
		p.Message.Content = slices.DeleteFunc(append([]Block{}, p.Message.Content...), func(b Block) bool { return !b.known() })
		for i := range p.Message.Content {
			p.Message.Content[i].Input = cleanInput(p.Message.Content[i].Input)
		}
	}

	e.Event, err = Event{Payload: payload}.Append(nil)
	return err
}

// clean replaces the input of a call by its own JSON. It is omitted if it is not an object in the
// bounds.
func (b *TranscriptBlock) clean() {
	if len(b.Input) > 0 {
		b.Input = cleanInput(b.Input)
		b.Truncated = b.Truncated || b.Input == nil
	}
}

// TranscriptBlock is one block of a message: text, thinking, image, file, tool_use or tool_result.
// The bytes of an image and of a file are not included.
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
	MediaType string          `json:"mediaType,omitempty"` // of an image or a file, whose name is Name
	Size      int             `json:"size,omitempty"`      // of an image or a file, in bytes
	Truncated bool            `json:"truncated,omitempty"` // the text is shortened, or the input is omitted
}

// Time is a time in UTC with six digits of the second. Those outside the years 1 to 9999 are
// encoded as the nearest ones inside.
type Time time.Time

// IsZero reports whether the time is absent.
func (t Time) IsZero() bool { return time.Time(t).IsZero() }

// MarshalJSON encodes the time.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + instant.Format(time.Time(t)) + `"`), nil
}

// UnmarshalJSON decodes a time of RFC 3339.
func (t *Time) UnmarshalJSON(data []byte) error { return jsonlimit.Unmarshal(data, (*time.Time)(t)) }
