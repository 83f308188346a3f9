package wire

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/runtime/wire"
)

// ChatSession is a conversation of a user with an agent.
type ChatSession struct {
	// A UUID; that of a pushed session is its own.
	ID        string `json:"id"`
	AgentName string `json:"agentName"`
	UserID    string `json:"userId"`
	UserName  string `json:"userName"`
	// The start of the first message unless it was given.
	Title        string `json:"title"`
	Source       string `json:"source"`
	MessageCount int64  `json:"messageCount"`
	// null without messages.
	LastMessageAt Time `json:"lastMessageAt"`
	// Whether an answer is in progress.
	Answering bool `json:"answering"`
	// Whether the last answer waits. Absent if not.
	Waiting   bool `json:"waiting,omitempty"`
	CreatedAt Time `json:"createdAt"`
	UpdatedAt Time `json:"updatedAt"`
}

// ChatMessage is a stored message of a session.
type ChatMessage struct {
	ID        string `json:"id"`
	SessionID string `json:"sessionId"`
	// 1, 2, 3 in the session.
	Seq  int64  `json:"seq"`
	Role string `json:"role"`
	// An array of objects with a type, such as text, thinking, tool_use and tool_result, those of
	// subagents with their parent_tool_use_id, system events of the run, and blocks of other types of
	// a pushed message. A notice is a text block of its own. An image or a file of a user has its
	// name, mediaType, size and uploadId.
	Content json.RawMessage `json:"content"`
	// The text of the text blocks.
	Text   string `json:"text"`
	Status string `json:"status"`
	// The run of the runtime. Absent for messages of users and pushed ones.
	RunID string `json:"runId,omitempty"`
	// Absent if unknown.
	Model string `json:"model,omitempty"`
	// Tokens. Absent for messages of users, while the answer is in progress, and if unknown.
	Usage *wire.Usage `json:"usage,omitempty"`
	// The label of generated content. Absent without one.
	AIGC json.RawMessage `json:"aigc,omitempty"`
	// Those that were used up to their soft limits at the end of the answer. Absent without one.
	Budgets []Budget `json:"budgets,omitempty"`
	// The calls and questions without a decision. Only with the status waiting.
	Pending []wire.Pending `json:"pending,omitempty"`
	// Only of a failed answer.
	Error     *ChatError `json:"error,omitempty"`
	CreatedAt Time       `json:"createdAt"`
}

// ChatError is the reason why there is no complete answer.
type ChatError struct {
	// That of the result of the runtime, or one of the codes of the hub.
	Code    string `json:"code"`
	Message string `json:"message"`
	// Who can do what about it, with the name of the provider. Absent if unknown.
	Remedy string `json:"remedy,omitempty"`
}

// ChatMessageRequest is a message to an agent.
type ChatMessageRequest struct {
	Message string `json:"message,omitempty"`
	// Texts, images and files after Message, which may be empty. An UploadID is that of an upload to
	// the hub.
	Content []wire.ContentPart `json:"content,omitempty"`
	// Of the caller's choice. A message with the same id is not sent again.
	ClientMessageID string `json:"clientMessageId,omitempty"`
	// What a client that disconnects does to the answer: cancel, the default, or continue.
	OnDisconnect string `json:"onDisconnect,omitempty"`
	// Continues without a stream: the response has the ids of the messages.
	Background bool `json:"background,omitempty"`
	// The JSON Schema of an object, at most 64 KiB, for an agent that has none: the answer is JSON
	// that matches it, and its content has the value in a block structured. Of answers, the default is
	// that of the message.
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	// The kinds of a Pending that the caller can answer: approval, client_tool and question. The
	// answer may end waiting for them. Of answers, the default is that of the message.
	Inputs []string `json:"inputs,omitempty"`
	// Tools that the caller calls, with client_tool in Inputs.
	ClientTools []wire.ClientTool `json:"clientTools,omitempty"`
	// In place of Message: an answer for each Pending of the last answer, which they continue. Those
	// of others may be missing.
	Answers []wire.Answer `json:"answers,omitempty"`
}

// RepeatedMessage is the response to a message that was sent before.
type RepeatedMessage struct {
	UserMessage ChatMessage `json:"userMessage"`
	// It is partial during the run.
	AssistantMessage ChatMessage `json:"assistantMessage"`
	// That of the answer.
	Status string `json:"status"`
}

// EventName implements [wire.Payload]: of a message that was sent before, it is the only event.
func (*RepeatedMessage) EventName() string { return "hub" }

// Begun is the first event of an answer.
type Begun struct {
	Type               string          `json:"type"` // hub
	SessionID          string          `json:"sessionId"`
	UserMessageID      string          `json:"userMessageId"`
	AssistantMessageID string          `json:"assistantMessageId"`
	AIGC               json.RawMessage `json:"aigc,omitempty"`
	AIGCNotice         string          `json:"aigcNotice,omitempty"` // to be shown next to the answer
}

// Gap is the event in place of events that are no longer available. A client removes what it has of
// the answer: the next events have the answer so far.
type Gap struct {
	Type string `json:"type"` // hub.gap
}

// Notice is a label of generated content that is part of the answer.
type Notice struct {
	Type     string `json:"type"`     // hub.notice
	Position string `json:"position"` // append or prepend
	Text     string `json:"text"`
}

// Saved is the event after the answer was stored.
type Saved struct {
	Type      string          `json:"type"` // hub.saved
	MessageID string          `json:"messageId"`
	Status    string          `json:"status"` // completed, waiting, partial, cancelled or failed
	Usage     wire.Usage      `json:"usage"`
	AIGC      json.RawMessage `json:"aigc,omitempty"`
	Budgets   []Budget        `json:"budgets,omitempty"` // that are used up to their soft limits
	Error     *ChatError      `json:"error,omitempty"`   // only of a failed answer
	Pending   []wire.Pending  `json:"pending,omitempty"` // only of one that waits
}

// EventName implements [wire.Payload].
func (*Gap) EventName() string { return "hub" }

// EventName implements [wire.Payload].
func (*Begun) EventName() string { return "hub" }

// EventName implements [wire.Payload].
func (*Notice) EventName() string { return "hub" }

// EventName implements [wire.Payload].
func (*Saved) EventName() string { return "hub" }

// ChatRun is an answer in progress.
type ChatRun struct {
	RunID string `json:"runId"`
	// cancelling after a request to cancel it.
	State     string `json:"state"`
	AgentName string `json:"agentName"`
	// The owner of the session.
	UserID    string `json:"userId"`
	UserName  string `json:"userName"`
	SessionID string `json:"sessionId"`
	StartedAt Time   `json:"startedAt"`
}

// TranscriptEntry is what happened in a session, as its runtime stored it.
type TranscriptEntry struct {
	Seq   int64     `json:"seq"`
	Time  wire.Time `json:"time,omitzero"`
	RunID string    `json:"runId,omitempty"`
	Type  string    `json:"type"`
	Role  string    `json:"role,omitempty"`

	Content []wire.TranscriptBlock `json:"content,omitempty"`
	// An event of the run.
	Event   json.RawMessage `json:"event,omitempty"`
	Summary string          `json:"summary,omitempty"`
	Kept    int             `json:"kept,omitempty"`
	// The label of what a model generated.
	AIGC json.RawMessage `json:"aigc,omitempty"`
	// The notice of an event or of results, which have no block for it.
	AIGCNotice string `json:"aigcNotice,omitempty"`
}
