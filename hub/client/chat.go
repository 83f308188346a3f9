package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Chats are the conversations of the caller with agents.
type Chats struct{ c *Client }

func chatPath(agent string) string { return "/api/v1/agents/" + segment(agent) + "/chat/sessions" }

// List yields the sessions of the caller with an agent, the latest first.
func (s Chats) List(ctx context.Context, agent string) iter.Seq2[ChatSession, error] {
	return list[ChatSession](ctx, s.c, chatPath(agent), nil)
}

// Create creates a session. Without a title it has that of its first message.
func (s Chats) Create(ctx context.Context, agent, title string) (ChatSession, error) {
	body := map[string]string{}
	if title != "" {
		body["title"] = title
	}

	return send[ChatSession](ctx, s.c, http.MethodPost, chatPath(agent), body)
}

// Delete deletes a session with its messages.
func (s Chats) Delete(ctx context.Context, agent, session string) error {
	return done(ctx, s.c, http.MethodDelete, chatPath(agent)+"/"+segment(session), nil)
}

// Messages yields the messages of a session, the oldest first.
func (s Chats) Messages(ctx context.Context, agent, session string) iter.Seq2[ChatMessage, error] {
	return list[ChatMessage](ctx, s.c, chatPath(agent)+"/"+segment(session)+"/messages", nil)
}

// Transcript yields what happened in a session, as its runtime stored it.
func (s Chats) Transcript(ctx context.Context, agent, session string) iter.Seq2[TranscriptEntry, error] {
	return list[TranscriptEntry](ctx, s.c, chatPath(agent)+"/"+segment(session)+"/transcript", nil)
}

// Cancel cancels the answer in progress of a session and returns the id of its run.
func (s Chats) Cancel(ctx context.Context, agent, session string) (string, error) {
	return cancelRun(ctx, s.c, chatPath(agent)+"/"+segment(session)+"/cancel")
}

func cancelRun(ctx context.Context, c *Client, path string) (string, error) {
	body, err := send[struct {
		RunID string `json:"runId"`
	}](ctx, c, http.MethodPost, path, nil)
	return body.RunID, err
}

// History are all conversations of the organization. A member reads and deletes only its own.
type History struct{ c *Client }

const historyPath = "/api/v1/admin/chat/sessions"

// HistoryFilter selects sessions. Empty fields match every session.
type HistoryFilter struct {
	Agent  string
	User   string // a part of the id or the name
	Source string // hub or push
	From   time.Time
	To     time.Time
}

// List yields the sessions, the latest first.
func (h History) List(ctx context.Context, f HistoryFilter) iter.Seq2[ChatSession, error] {
	return list[ChatSession](ctx, h.c, historyPath, url.Values{
		"agent": {f.Agent}, "user": {f.User}, "source": {f.Source}, "from": {instant(f.From)}, "to": {instant(f.To)},
	})
}

// instant returns a time as a parameter of a query.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}

	return t.Format(time.RFC3339Nano)
}

func sessionOf(id, user string) string {
	return withQuery(historyPath+"/"+segment(id), url.Values{"user": {user}})
}

// Get returns a session. The user id is only required if several users have pushed sessions with
// the same id.
func (h History) Get(ctx context.Context, id, user string) (ChatSession, error) {
	return get[ChatSession](ctx, h.c, sessionOf(id, user), nil)
}

// Delete deletes a session.
func (h History) Delete(ctx context.Context, id, user string) error {
	return done(ctx, h.c, http.MethodDelete, sessionOf(id, user), nil)
}

// Messages yields the messages of a session, the oldest first.
func (h History) Messages(ctx context.Context, id, user string) iter.Seq2[ChatMessage, error] {
	return list[ChatMessage](ctx, h.c, historyPath+"/"+segment(id)+"/messages", url.Values{"user": {user}})
}

// Transcript yields what happened in a session, as its runtime stored it.
func (h History) Transcript(ctx context.Context, id, user string) iter.Seq2[TranscriptEntry, error] {
	return list[TranscriptEntry](ctx, h.c, historyPath+"/"+segment(id)+"/transcript", url.Values{"user": {user}})
}

// Runs are the answers in progress of the organization.
type Runs struct{ c *Client }

// List yields the runs.
func (r Runs) List(ctx context.Context) iter.Seq2[Run, error] {
	return list[Run](ctx, r.c, "/api/v1/admin/runs", nil)
}

// Cancel cancels a run.
func (r Runs) Cancel(ctx context.Context, runID string) error {
	_, err := cancelRun(ctx, r.c, "/api/v1/admin/runs/"+segment(runID)+"/cancel")
	return err
}

// Push uploads chats of another program, at most 50 sessions.
func (c *Client) Push(ctx context.Context, req PushRequest) (PushResult, error) {
	r, err := jsonRequest(http.MethodPost, "/api/v1/chat/push", req)
	if err != nil {
		return PushResult{}, err
	}

	if c.cfg.PushKey != "" {
		r.open = true
		r.header.Set("X-Chat-Push-Key", c.cfg.PushKey)
	}

	return decode[PushResult](ctx, c, r)
}

// ChatSession is a conversation.
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
	LastMessageAt *time.Time `json:"lastMessageAt"`
	CreatedAt     time.Time  `json:"createdAt"`
	UpdatedAt     time.Time  `json:"updatedAt"`
}

// ChatMessage is a stored message.
type ChatMessage struct {
	ID        string `json:"id"`
	SessionID string `json:"sessionId"`
	Seq       int64  `json:"seq"`
	Role      string `json:"role"`
	// Objects with a type, such as text, thinking, tool_use and tool_result.
	Content []json.RawMessage `json:"content"`
	// The text of the text blocks.
	Text   string `json:"text"`
	Status string `json:"status"`
	// The run of the runtime. Absent for messages of users and pushed ones.
	RunID string `json:"runId,omitempty"`
	// Absent if unknown.
	Model string `json:"model,omitempty"`
	// Tokens. Absent for messages of users, while the answer is in progress, and if unknown.
	Usage *TokenUsage `json:"usage,omitempty"`
	// The label of generated content. Absent without one.
	AIGC json.RawMessage `json:"aigc,omitzero"`
	// Those that were used up to their soft limits at the end of the answer. Absent without one.
	Budgets []Budget `json:"budgets,omitzero"`
	// Only of a failed answer.
	Error     *ChatError `json:"error,omitempty"`
	CreatedAt time.Time  `json:"createdAt"`
}

// TokenUsage is part of a [ChatMessage].
type TokenUsage struct {
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
	// A part of output_tokens. Absent if the model does not count them.
	ReasoningTokens int64 `json:"reasoning_tokens,omitempty"`
	// A part of the tokens is an estimate. Absent otherwise.
	Estimated bool `json:"estimated,omitempty"`
}

// ChatError is part of a [ChatMessage].
type ChatError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Run is an answer in progress.
type Run struct {
	RunID string `json:"runId"`
	// cancelling after a request to cancel it.
	State     string `json:"state"`
	AgentName string `json:"agentName"`
	// The owner of the session.
	UserID    string    `json:"userId"`
	UserName  string    `json:"userName"`
	SessionID string    `json:"sessionId"`
	StartedAt time.Time `json:"startedAt"`
}

// TranscriptEntry is what happened in a session, as its runtime stored it.
type TranscriptEntry struct {
	Seq     int64             `json:"seq"`
	Time    time.Time         `json:"time,omitzero"`
	Type    string            `json:"type"`
	RunID   string            `json:"runId,omitempty"`
	Role    string            `json:"role,omitempty"`
	Content []json.RawMessage `json:"content,omitzero"`
	// An event of the run.
	Event   json.RawMessage `json:"event,omitzero"`
	Summary string          `json:"summary,omitempty"`
	Kept    int64           `json:"kept,omitempty"`
	// The label of what a model generated.
	AIGC       json.RawMessage `json:"aigc,omitzero"`
	AIGCNotice string          `json:"aigcNotice,omitempty"` // to be shown next to the entry
}

// PushRequest uploads chats of another program.
type PushRequest struct {
	// With the key in external mode. The default organization if it is empty.
	Org string `json:"org,omitempty"`
	// A session that does not have the form of its schema is invalid, unless a field has the
	// wrong type.
	Sessions []PushSession `json:"sessions"`
}

// PushSession is part of a [PushRequest].
type PushSession struct {
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
	UpdatedAt string        `json:"updated_at,omitempty"`
	Messages  []PushMessage `json:"messages,omitzero"`
}

// PushMessage is part of a [PushRequest].
type PushMessage struct {
	// 1 to 128 characters. Unique in its session.
	ID string `json:"id,omitempty"`
	// user or assistant.
	Role string `json:"role,omitempty"`
	// A string or an array of blocks. Blocks of the types of ChatMessage have the members of their
	// types, and others are not stored.
	Content json.RawMessage `json:"content,omitempty"`
	Model   string          `json:"model,omitempty"`
	Usage   map[string]any  `json:"usage,omitzero"`
	// RFC 3339 in the years 1970 to 9999, required.
	CreatedAt string `json:"created_at,omitempty"`
}

// PushResult is what became of the pushed sessions.
type PushResult struct {
	// Sessions that were created.
	Accepted int64 `json:"accepted"`
	Updated  int64 `json:"updated"`
	// Sessions that are unchanged or stale.
	Skipped int64 `json:"skipped"`
	// Sessions that are invalid.
	Failed  int64         `json:"failed"`
	Results []PushOutcome `json:"results"`
}

// PushOutcome is part of a [PushResult].
type PushOutcome struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	// The stored updated_at. Absent if the session is not stored.
	ServerUpdatedAt time.Time `json:"server_updated_at,omitzero"`
	// Why the session is invalid. Absent otherwise.
	Error string `json:"error,omitempty"`
}
