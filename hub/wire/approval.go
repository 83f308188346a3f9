package wire

import (
	"encoding/json"
)

// Approval is a call or a question that waits for a person.
type Approval struct {
	ID string `json:"id"`
	// approval or question.
	Kind      string `json:"kind"`
	AgentName string `json:"agentName"`
	SessionID string `json:"sessionId"`
	// The message that waits.
	MessageID string `json:"messageId"`
	// The owner of the chat.
	UserID   string `json:"userId"`
	UserName string `json:"userName"`
	ToolName string `json:"toolName"`
	// Why the call needs an approval, or the message of a question.
	Reason string `json:"reason,omitempty"`
	// What runs if the call is approved. A list has its first 4 KiB.
	Executed  string `json:"executed,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	// The SHA-256 of all of Executed, in hexadecimal.
	Digest string `json:"digest,omitempty"`
	// Who may answer: owner, maintainer or admin.
	Approvers string `json:"approvers"`
	CreatedAt Time   `json:"createdAt"`
	// The input of the call. Not in a list, as the following fields.
	Input json.RawMessage `json:"input,omitempty"`
	// Of a question: the schema of its values.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Of a question: what to visit.
	URL string `json:"url,omitempty"`
	// Of a question: the MCP server that asks.
	Server string `json:"server,omitempty"`
}

// ApprovalAnswer is the answer of a person: a decision for an approval, an action for a question.
type ApprovalAnswer struct {
	// approve or reject.
	Decision string `json:"decision,omitempty"`
	// Of a rejection. The model receives it.
	Reason string `json:"reason,omitempty"`
	// An object that replaces the input of an approved call.
	Input json.RawMessage `json:"input,omitempty"`
	// accept, decline or cancel.
	Action string `json:"action,omitempty"`
	// Of accept: an object with the values.
	Content json.RawMessage `json:"content,omitempty"`
}

// ApprovalResult is what an answer has led to.
type ApprovalResult struct {
	// waiting for further answers, or running.
	State string `json:"state"`
	// The run that continues the answer of the agent. Absent while it waits.
	RunID string `json:"runId,omitempty"`
}
