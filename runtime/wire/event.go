package wire

import "encoding/json"

// Event is one event of a run.
type Event struct {
	Payload

	// More reports whether the next event is already available, so that a relay can send both
	// together. It is not part of the JSON.
	More bool
}

// Payload is the content of an event: one of the pointer types in this file.
type Payload interface {
	// EventName is the name on the event: line.
	EventName() string
}

// System is the first event of a run (subtype init) or a later event that is not part of the
// conversation.
type System struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`

	// Only in init.
	*Init

	// permission_denied, permission_required: the call. answered: the call, and the ID, Kind, Decision
	// and Digest of the answer. mcp_status: Name, Status and Error of a server.
	ID        string `json:"id,omitempty"` // of a [Pending]
	Kind      string `json:"kind,omitempty"`
	Decision  string `json:"decision,omitempty"` // approve, reject, output, error, accept, decline or cancel
	Digest    string `json:"digest,omitempty"`   // the SHA-256 of Executed in hexadecimal
	ToolName  string `json:"tool_name,omitempty"`
	ToolUseID string `json:"tool_use_id,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Source    string `json:"source,omitempty"` // the setting that denied it: disallowedTools, allowedTools, permissionMode or protectedPaths
	Rule      string `json:"rule,omitempty"`   // the rule or the mode, if it is one
	Name      string `json:"name,omitempty"`
	Status    string `json:"status,omitempty"`
	Error     string `json:"error,omitempty"`

	// warning: a sentence for the user.
	Message string `json:"message,omitempty"`

	// compact_boundary: the size of the conversation.
	CompactMetadata *CompactMetadata `json:"compact_metadata,omitempty"`
}

// CompactMetadata has the tokens of a conversation before its older part was summarised, and an
// estimate of the tokens after that.
type CompactMetadata struct {
	Trigger    string `json:"trigger"` // auto
	PreTokens  int64  `json:"pre_tokens"`
	PostTokens int64  `json:"post_tokens"`
}

// Init describes a run. It never contains the system prompt.
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
	Structured     bool        `json:"structured,omitempty"` // the run has an output schema
}

// MCPStatus is the state of the connection to an MCP server.
type MCPStatus struct {
	Name   string `json:"name"`
	Status string `json:"status"` // pending, connected or failed
}

// PartialMessage is an increment of the current message of the model.
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
	ToolName  string // only in tool_use
	ToolUseID string // only in tool_use; in the JSON also as id
}

// Assistant is a complete message of the model.
type Assistant struct {
	Type            string           `json:"type"`
	UUID            string           `json:"uuid"`
	SessionID       string           `json:"session_id"`
	ParentToolUseID *string          `json:"parent_tool_use_id"` // of a subagent's message: the call of the subagent
	Message         AssistantMessage `json:"message"`
	Usage           Usage            `json:"usage"`
	Truncated       bool             `json:"truncated,omitempty"` // truncated to fit into an event
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

// ToolResult is the result of a tool call.
type ToolResult struct {
	Type            string           `json:"type"`
	ParentToolUseID *string          `json:"parent_tool_use_id"`
	Result          ToolResultDetail `json:"result"`
}

// ToolResultDetail is the content of a [ToolResult] event.
type ToolResultDetail struct {
	ToolUseID  string `json:"tool_use_id"`
	ToolName   string `json:"tool_name"`
	Output     string `json:"output"`
	IsError    bool   `json:"is_error"`
	DurationMs int64  `json:"duration_ms"`
	Truncated  bool   `json:"truncated"`
}

// Result is the result of a run that was not cancelled. The fields of a success and those of an
// error are mutually exclusive.
type Result struct {
	Type       string `json:"type"`
	Subtype    string `json:"subtype"`
	RunID      string `json:"runId"`
	SessionID  string `json:"session_id"`
	IsError    bool   `json:"is_error"`
	NumTurns   int    `json:"num_turns"`
	DurationMs int64  `json:"duration_ms"`
	Usage      Usage  `json:"usage"`

	// TotalTurns, of a run with answers, is NumTurns with those of the runs that it continues.
	TotalTurns int `json:"total_turns,omitempty"`

	Others map[string]Usage `json:"subagent_usage,omitempty"` // see RunUsage.Others

	// Only after a success or a wait. An empty text is present, hence the pointer.
	Result            *string            `json:"result,omitempty"`
	Structured        json.RawMessage    `json:"structured,omitempty"` // see RunResponse.Structured
	StopReason        string             `json:"stop_reason,omitempty"`
	TotalCostUSD      *float64           `json:"total_cost_usd,omitempty"`
	PermissionDenials []PermissionDenial `json:"permission_denials,omitzero"`

	// Only with the subtype input_required, which is also the stop reason: what the session waits for.
	Pending []Pending `json:"pending,omitempty"`

	// Only after an error.
	ErrorType    string   `json:"error_type,omitempty"`
	Errors       []string `json:"errors,omitempty"`
	RetryAfterMs int64    `json:"retry_after_ms,omitempty"` // the wait that the API of the model requests

	Truncated bool `json:"truncated,omitempty"` // Result is truncated to fit into an event
}

// PermissionDenial is a denied tool call.
type PermissionDenial struct {
	ToolName  string `json:"tool_name"`
	ToolUseID string `json:"tool_use_id"`
	Reason    string `json:"reason"`
}

// Cancelled replaces [Result] if the run was cancelled.
type Cancelled struct {
	Type   string `json:"type"`
	RunID  string `json:"runId"`
	Reason Reason `json:"reason"`
	Usage  Usage  `json:"usage"` // until the end; upstream counts the output of an incomplete message late

	Others map[string]Usage `json:"subagent_usage,omitempty"` // see RunUsage.Others
}

// Fault is the error event. It reports an internal error of the runtime.
type Fault struct {
	Type      string `json:"type"`
	Error     string `json:"error"`
	ErrorType string `json:"errorType"`
	RunID     string `json:"runId"`
	Usage     Usage  `json:"usage"`

	Others map[string]Usage `json:"subagent_usage,omitempty"` // see RunUsage.Others
}

// Done is always the last event. Its data is {}.
type Done struct{}

// Unknown is an event with a name that this version does not know, or that a client which must show
// the others cannot decode. Data is unchanged, and may not be JSON.
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
