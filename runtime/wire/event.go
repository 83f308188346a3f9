package wire

import "encoding/json"

// Event is one event of a run.
type Event struct {
	Payload

	// More tells that the next event is already in memory: a sender that passes events on may
	// wait for it before it flushes. It is not sent.
	More bool
}

// Payload is what an event carries: one of the pointer types of this file.
type Payload interface {
	// EventName is the name on the event: line.
	EventName() string
}

// System is the first event of a run (subtype init), and tells of things beside the
// conversation later on.
type System struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`

	// Init alone.
	*Init

	// permission_denied: which call was refused. mcp_status: Name, Status and Error of a server.
	ToolName  string `json:"tool_name,omitempty"`
	ToolUseID string `json:"tool_use_id,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Name      string `json:"name,omitempty"`
	Status    string `json:"status,omitempty"`
	Error     string `json:"error,omitempty"`

	// warning: what the reader should know.
	Message string `json:"message,omitempty"`

	// compact_boundary: what became of the conversation.
	CompactMetadata *CompactMetadata `json:"compact_metadata,omitempty"`
}

// CompactMetadata tells how much of the context window a conversation took before its older part
// was summarised, and after. Both count tokens, the second by estimate.
type CompactMetadata struct {
	Trigger    string `json:"trigger"` // auto
	PreTokens  int64  `json:"pre_tokens"`
	PostTokens int64  `json:"post_tokens"`
}

// Subtypes of [System].
const (
	SystemInit             = "init"
	SystemMCPStatus        = "mcp_status"
	SystemPermissionDenied = "permission_denied"
	SystemCompactBoundary  = "compact_boundary"
	SystemWarning          = "warning"
)

// Init tells what a run works with. It never holds the system prompt.
type Init struct {
	RunID          string      `json:"runId"`
	SessionID      string      `json:"session_id"`
	AgentID        string      `json:"agent_id"`
	Model          string      `json:"model"`
	CWD            string      `json:"cwd"`
	Tools          []string    `json:"tools"`
	Skills         []string    `json:"skills"`
	MCPServers     []MCPStatus `json:"mcp_servers"`
	PermissionMode string      `json:"permission_mode"`
	Resumed        bool        `json:"resumed"`
}

// MCPStatus says how the connection to an MCP server stands.
type MCPStatus struct {
	Name   string `json:"name"`
	Status string `json:"status"` // pending, connected or failed
}

// PartialMessage is an increment of the message that is being written.
type PartialMessage struct {
	Partial Partial
}

// Partial types.
const (
	PartialText     = "text"
	PartialThinking = "thinking"
	PartialToolUse  = "tool_use"
)

// Partial is one increment.
type Partial struct {
	Type      string // text, thinking or tool_use
	Text      string // of text and thinking
	ToolName  string // of tool_use, as are the following
	ToolUseID string // on the wire also as id
}

// Assistant is one whole message of the model.
type Assistant struct {
	Type            string           `json:"type"`
	UUID            string           `json:"uuid"`
	SessionID       string           `json:"session_id"`
	ParentToolUseID *string          `json:"parent_tool_use_id"` // of a subagent's message: the call that started it
	Message         AssistantMessage `json:"message"`
	Usage           Usage            `json:"usage"`
	Truncated       bool             `json:"truncated,omitempty"` // cut to fit an event
}

// AssistantMessage is the message of an [Assistant] event.
type AssistantMessage struct {
	Role       string  `json:"role"`
	Content    []Block `json:"content"`
	Model      string  `json:"model"`
	StopReason string  `json:"stop_reason"`
}

// Block is one piece of content: text, thinking or tool_use.
type Block struct {
	Type     string
	Text     string
	Thinking string
	ID       string
	Name     string
	Input    json.RawMessage
}

// ToolResult tells what a tool call gave.
type ToolResult struct {
	Type            string           `json:"type"`
	ParentToolUseID *string          `json:"parent_tool_use_id"`
	Result          ToolResultDetail `json:"result"`
}

// ToolResultDetail is the result of a [ToolResult] event.
type ToolResultDetail struct {
	ToolUseID  string `json:"tool_use_id"`
	ToolName   string `json:"tool_name"`
	Output     string `json:"output"`
	IsError    bool   `json:"is_error"`
	DurationMs int64  `json:"duration_ms"`
	Truncated  bool   `json:"truncated"`
}

// Result ends a run that was not cancelled. The fields that belong to one half only, success
// or error, are absent from the other.
type Result struct {
	Type       string `json:"type"`
	Subtype    string `json:"subtype"`
	RunID      string `json:"runId"`
	SessionID  string `json:"session_id"`
	IsError    bool   `json:"is_error"`
	NumTurns   int    `json:"num_turns"`
	DurationMs int64  `json:"duration_ms"`
	Usage      Usage  `json:"usage"`

	// Success alone: pointers and nil, so that an empty text is still there.
	Result            *string            `json:"result,omitempty"`
	StopReason        string             `json:"stop_reason,omitempty"`
	TotalCostUSD      *float64           `json:"total_cost_usd,omitempty"`
	PermissionDenials []PermissionDenial `json:"permission_denials,omitzero"`

	// Errors alone.
	ErrorType string   `json:"error_type,omitempty"`
	Errors    []string `json:"errors,omitempty"`

	Truncated bool `json:"truncated,omitempty"` // Result was cut to fit an event
}

// Subtypes of [Result].
const (
	ResultSuccess   = "success"
	ResultError     = "error"
	ResultMaxTurns  = ErrorTypeMaxTurns
	ResultExecution = ErrorTypeExecution
)

// PermissionDenial is a tool call that was refused.
type PermissionDenial struct {
	ToolName  string `json:"tool_name"`
	ToolUseID string `json:"tool_use_id"`
	Reason    string `json:"reason"`
}

// Cancelled takes the place of [Result] in a run that was cancelled.
type Cancelled struct {
	Type   string `json:"type"`
	RunID  string `json:"runId"`
	Reason Reason `json:"reason"`
}

// Fault is the error event: an internal fault of the runtime, never one of the run.
type Fault struct {
	Type      string `json:"type"`
	Error     string `json:"error"`
	ErrorType string `json:"errorType"`
	RunID     string `json:"runId"`
}

// Done is always the last event. Its data is {}.
type Done struct{}

// Unknown is an event of a name that this version does not know, as it came.
type Unknown struct {
	Name string
	Data json.RawMessage
}

func (*System) EventName() string         { return "system" }
func (*PartialMessage) EventName() string { return "partial_message" }
func (*Assistant) EventName() string      { return "assistant" }
func (*ToolResult) EventName() string     { return "tool_result" }
func (*Result) EventName() string         { return "result" }
func (*Cancelled) EventName() string      { return "cancelled" }
func (*Fault) EventName() string          { return "error" }
func (*Done) EventName() string           { return "done" }
func (u *Unknown) EventName() string      { return u.Name }
