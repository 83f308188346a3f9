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
	MCPConnectTimeout  time.Duration `json:"mcpConnectTimeout,omitzero"`  // of connecting, and of the wait of a run for its servers. Defaults to 10s.
	MCPStartTimeout    time.Duration `json:"mcpStartTimeout,omitzero"`    // of the first connection of a stdio server, which may install packages. Defaults to 3m.
	MaxMessageBytes    int64         `json:"maxMessageBytes,omitzero"`    // of the body of a run request without images and files. Defaults to 4 MiB.
	MaxResponseBytes   int           `json:"maxResponseBytes,omitzero"`   // of text, thinking and tool inputs of one response of the model. Defaults to 4 MiB, at most 64 MiB.
	MaxMemoryBytes     int64         `json:"maxMemoryBytes,omitzero"`     // of the requests, conversations, prompts, responses and tool results of all runs together, estimated. Defaults to 512 MiB.
	MaxUploadBytes     int64         `json:"maxUploadBytes,omitzero"`     // of all uploads that are stored. Defaults to 1 GiB.
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
		MCPStartTimeout:    cmp.Or(l.MCPStartTimeout, 3*time.Minute),
		MaxMessageBytes:    cmp.Or(l.MaxMessageBytes, 4<<20),
		MaxResponseBytes:   cmp.Or(l.MaxResponseBytes, 4<<20),
		MaxMemoryBytes:     cmp.Or(l.MaxMemoryBytes, 512<<20),
		MaxUploadBytes:     cmp.Or(l.MaxUploadBytes, 1<<30),
		SessionTTL:         cmp.Or(l.SessionTTL, 720*time.Hour),
	}
}

// AgentLimits are limits of one agent. A zero field has the value in the [Limits] of the file.
type AgentLimits struct {
	RunTimeout         time.Duration `json:"runTimeout,omitzero"`
	LLMIdleTimeout     time.Duration `json:"llmIdleTimeout,omitzero"`
	ToolTimeout        time.Duration `json:"toolTimeout,omitzero"`
	MaxToolOutputBytes int           `json:"maxToolOutputBytes,omitzero"`
	MCPConnectTimeout  time.Duration `json:"mcpConnectTimeout,omitzero"`
	MCPStartTimeout    time.Duration `json:"mcpStartTimeout,omitzero"`
	MaxResponseBytes   int           `json:"maxResponseBytes,omitzero"`
}

// Of returns l with the limits of one agent.
func (l Limits) Of(a AgentLimits) Limits {
	l.RunTimeout = cmp.Or(a.RunTimeout, l.RunTimeout)
	l.LLMIdleTimeout = cmp.Or(a.LLMIdleTimeout, l.LLMIdleTimeout)
	l.ToolTimeout = cmp.Or(a.ToolTimeout, l.ToolTimeout)
	l.MaxToolOutputBytes = cmp.Or(a.MaxToolOutputBytes, l.MaxToolOutputBytes)
	l.MCPConnectTimeout = cmp.Or(a.MCPConnectTimeout, l.MCPConnectTimeout)
	l.MCPStartTimeout = cmp.Or(a.MCPStartTimeout, l.MCPStartTimeout)
	l.MaxResponseBytes = cmp.Or(a.MaxResponseBytes, l.MaxResponseBytes)
	return l
}

// The JSON of these structs has durations as strings, which encoding/json cannot declare.

// MarshalJSON implements json.Marshaler.
func (l Limits) MarshalJSON() ([]byte, error) { return json.Marshal(asText(&l)) }

// UnmarshalJSON implements json.Unmarshaler.
func (l *Limits) UnmarshalJSON(data []byte) error { return unmarshalText("limits", data, l) }

// MarshalJSON implements json.Marshaler.
func (l AgentLimits) MarshalJSON() ([]byte, error) { return json.Marshal(asText(&l)) }

// UnmarshalJSON implements json.Unmarshaler.
func (l *AgentLimits) UnmarshalJSON(data []byte) error { return unmarshalText("limits", data, l) }

// MarshalJSON implements json.Marshaler.
func (s MCPServer) MarshalJSON() ([]byte, error) { return json.Marshal(asText(&s)) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *MCPServer) UnmarshalJSON(data []byte) error { return unmarshalText("MCP server", data, s) }

func unmarshalText(name string, data []byte, to any) error {
	if err := json.Unmarshal(data, asText(to)); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
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
