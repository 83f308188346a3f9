package wire

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/runtime/wire"
)

// ChatPushRequest uploads chats of another program.
type ChatPushRequest struct {
	// With the key in external mode. The default organization if it is empty.
	Org string `json:"org,omitempty"`
	// A session that does not have the form of its schema is invalid, unless a field has the
	// wrong type.
	Sessions []PushedSession `json:"sessions"`
}

// PushedSession is a chat of another program.
type PushedSession struct {
	// 1 to 128 characters, without /. Unique for its user.
	ID string `json:"id,omitempty"`
	// The name of an agent of the organization.
	AgentName string `json:"agent_name,omitempty"`
	// Required with the key.
	UserName string `json:"user_name,omitempty"`
	// The start of the first message if it is empty.
	Title string `json:"title,omitempty"`
	// RFC 3339 in the years 1970 to 9999, required.
	CreatedAt string `json:"created_at,omitempty"`
	// RFC 3339 in the years 1970 to 9999, required.
	UpdatedAt string          `json:"updated_at,omitempty"`
	Messages  []PushedMessage `json:"messages,omitzero"`
}

// PushedMessage is a message of a [PushedSession].
type PushedMessage struct {
	// 1 to 128 characters. Unique in its session.
	ID string `json:"id,omitempty"`
	// user or assistant.
	Role string `json:"role,omitempty"`
	// A string or an array of blocks. Blocks of the types of ChatMessage have the members of their
	// types, and others are not stored.
	Content json.RawMessage `json:"content,omitempty"`
	Model   string          `json:"model,omitempty"`
	Usage   *wire.Usage     `json:"usage,omitempty"`
	// RFC 3339 in the years 1970 to 9999, required.
	CreatedAt string `json:"created_at,omitempty"`
}

// ChatPushResult has the result of each session of a push, in the order of the request.
type ChatPushResult struct {
	// Sessions that were created.
	Accepted int `json:"accepted"`
	Updated  int `json:"updated"`
	// Sessions that are unchanged or stale.
	Skipped int `json:"skipped"`
	// Sessions that are invalid.
	Failed  int             `json:"failed"`
	Results []SessionResult `json:"results"`
}

// SessionResult is the result of one session of a push.
type SessionResult struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	// The stored updated_at. Absent if the session is not stored.
	ServerUpdatedAt Time `json:"server_updated_at,omitzero"`
	// Why the session is invalid. Absent otherwise.
	Error string `json:"error,omitempty"`
}
