package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Limits are the limits of runs. A zero field has its default. In a file, durations are strings
// such as "90s" or "30m", as for [time.ParseDuration].
type Limits struct {
	MaxConcurrentRuns  int           `json:"maxConcurrentRuns,omitzero"`  // Defaults to 1000.
	RunTimeout         time.Duration `json:"runTimeout,omitzero"`         // of a whole run. Defaults to 30m.
	LLMIdleTimeout     time.Duration `json:"llmIdleTimeout,omitzero"`     // without a byte from upstream. Defaults to 2m.
	ToolTimeout        time.Duration `json:"toolTimeout,omitzero"`        // of one tool call. Defaults to 2m.
	MaxToolOutputBytes int           `json:"maxToolOutputBytes,omitzero"` // of one tool call, to the model. Defaults to 100000.
	MCPConnectTimeout  time.Duration `json:"mcpConnectTimeout,omitzero"`  // Defaults to 10s.
	MaxMessageBytes    int64         `json:"maxMessageBytes,omitzero"`    // of the body of a run request. Defaults to 4 MiB.
	MaxResponseBytes   int           `json:"maxResponseBytes,omitzero"`   // of text, thinking and tool inputs of one response of the model. Defaults to 4 MiB, at most 64 MiB.
	MaxMemoryBytes     int64         `json:"maxMemoryBytes,omitzero"`     // of the conversations and responses of all runs together, estimated. Defaults to 512 MiB.
	SessionTTL         time.Duration `json:"sessionTTL,omitzero"`         // transcripts are deleted after this time without use. Defaults to 720h.
}

// WithDefaults returns l with defaults for zero fields.
func (l Limits) WithDefaults() Limits {
	return Limits{
		MaxConcurrentRuns:  cmp.Or(l.MaxConcurrentRuns, 1000),
		RunTimeout:         cmp.Or(l.RunTimeout, 30*time.Minute),
		LLMIdleTimeout:     cmp.Or(l.LLMIdleTimeout, 2*time.Minute),
		ToolTimeout:        cmp.Or(l.ToolTimeout, 2*time.Minute),
		MaxToolOutputBytes: cmp.Or(l.MaxToolOutputBytes, 100_000),
		MCPConnectTimeout:  cmp.Or(l.MCPConnectTimeout, 10*time.Second),
		MaxMessageBytes:    cmp.Or(l.MaxMessageBytes, 4<<20),
		MaxResponseBytes:   cmp.Or(l.MaxResponseBytes, 4<<20),
		MaxMemoryBytes:     cmp.Or(l.MaxMemoryBytes, 512<<20),
		SessionTTL:         cmp.Or(l.SessionTTL, 720*time.Hour),
	}
}

// MarshalJSON encodes durations as strings.
func (l Limits) MarshalJSON() ([]byte, error) { return json.Marshal(asText(&l)) }

// UnmarshalJSON decodes the output of MarshalJSON.
func (l *Limits) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, asText(l)); err != nil {
		return fmt.Errorf("decode limits: %w", err)
	}
	return nil
}

// asText returns a pointer to the same struct without its methods, of which JSON has each
// time.Duration as a string.
func asText(to any) any {
	v := reflect.ValueOf(to)
	fields := reflect.VisibleFields(v.Type().Elem())
	for i := range fields {
		if fields[i].Type == reflect.TypeFor[time.Duration]() {
			fields[i].Type = reflect.TypeFor[duration]()
		}
	}
	return reflect.NewAt(reflect.StructOf(fields), v.UnsafePointer()).Interface()
}

type duration time.Duration

func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = duration(v)
	return err
}
