package wire

import "encoding/json"

// Pending is something that a session waits for. A later run of the session brings its [Answer].
type Pending struct {
	ID        string          `json:"id"`   // a UUID, new for every wait
	Kind      string          `json:"kind"` // approval, client_tool or question
	ToolName  string          `json:"tool_name"`
	ToolUseID string          `json:"tool_use_id"`
	Input     json.RawMessage `json:"input"`

	// Executed is what an approved call executes: the text of a command, the path and the difference
	// of a change, a URL, or the input as it was checked. It is never shortened.
	Executed string `json:"executed,omitempty"`
	Reason   string `json:"reason,omitempty"` // why the call needs an approval, or the message of a question

	// Only of a question: the schema of the values, or the URL to visit, and the server that asks.
	Schema json.RawMessage `json:"schema,omitempty"`
	URL    string          `json:"url,omitempty"`
	Server string          `json:"server,omitempty"`
}

// Answer answers a [Pending]. Its other fields depend on the kind.
type Answer struct {
	ID string `json:"id"`

	// Of an approval.
	Decision string          `json:"decision,omitempty"` // approve or reject
	Reason   string          `json:"reason,omitempty"`   // of a rejection, for the model
	Input    json.RawMessage `json:"input,omitempty"`    // an object that replaces the input of an approved call

	// Of a client_tool.
	Output  *string `json:"output,omitempty"`
	IsError bool    `json:"isError,omitempty"`

	// Of a question.
	Action  string          `json:"action,omitempty"`  // accept, decline or cancel
	Content json.RawMessage `json:"content,omitempty"` // of accept: an object with the values
}

// ClientTool is a tool that the client of a run calls. The runtime offers it to the model.
type ClientTool struct {
	Name        string          `json:"name"` // ^[A-Za-z0-9_-]{1,64}$
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"` // a JSON Schema of an object
}
