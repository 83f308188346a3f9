package client

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/wire"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// Chats are the conversations of the caller with agents.
type Chats struct{ c *Client }

func chatPath(agent string) string { return "/api/v1/agents/" + segment(agent) + "/chat/sessions" }

// List yields the sessions of the caller with an agent, the latest first.
func (s Chats) List(ctx context.Context, agent string) iter.Seq2[wire.ChatSession, error] {
	return list[wire.ChatSession](ctx, s.c, chatPath(agent), nil)
}

// Create creates a session. Without a title it has that of its first message.
func (s Chats) Create(ctx context.Context, agent, title string) (wire.ChatSession, error) {
	return send[wire.ChatSession](ctx, s.c, http.MethodPost, chatPath(agent), bodies.ChatSessionRequest{Title: title})
}

// Upload sends an image or a file for the content of messages, with any agent. One that no message
// has is deleted after an hour. An empty media type is that of the bytes.
func (s Chats) Upload(ctx context.Context, agent, mediaType string, data []byte) (runtimewire.Upload, error) {
	return decode[runtimewire.Upload](ctx, s.c, request{
		method: http.MethodPost, path: "/api/v1/agents/" + segment(agent) + "/chat/uploads", accept: jsonMedia, header: http.Header{},
		media: cmp.Or(mediaType, "application/octet-stream"), length: int64(len(data)), body: func() io.Reader { return bytes.NewReader(data) },
	})
}

// File returns an image or a file of a message. The caller closes it.
func (s Chats) File(ctx context.Context, agent, session, upload string) (*File, error) {
	return s.c.open(ctx, chatPath(agent)+"/"+segment(session)+"/uploads/"+segment(upload), 0, false)
}

// Delete deletes a session with its messages and their images and files.
func (s Chats) Delete(ctx context.Context, agent, session string) error {
	return done(ctx, s.c, http.MethodDelete, chatPath(agent)+"/"+segment(session), nil)
}

// Messages yields the messages of a session, the oldest first.
func (s Chats) Messages(ctx context.Context, agent, session string) iter.Seq2[wire.ChatMessage, error] {
	return list[wire.ChatMessage](ctx, s.c, chatPath(agent)+"/"+segment(session)+"/messages", nil)
}

// Transcript yields what happened in a session, as its runtime stored it.
func (s Chats) Transcript(ctx context.Context, agent, session string) iter.Seq2[wire.TranscriptEntry, error] {
	return list[wire.TranscriptEntry](ctx, s.c, chatPath(agent)+"/"+segment(session)+"/transcript", nil)
}

// Cancel cancels the answer in progress of a session and returns the id of its run.
func (s Chats) Cancel(ctx context.Context, agent, session string) (string, error) {
	return cancelRun(ctx, s.c, chatPath(agent)+"/"+segment(session)+"/cancel")
}

// CancelAnswer cancels one answer in progress and returns the id of its run.
func (s Chats) CancelAnswer(ctx context.Context, agent, session, message string) (string, error) {
	return cancelRun(ctx, s.c, chatPath(agent)+"/"+segment(session)+"/messages/"+segment(message)+"/cancel")
}

func cancelRun(ctx context.Context, c *Client, path string) (string, error) {
	body, err := send[bodies.Cancelling](ctx, c, http.MethodPost, path, nil)
	return body.RunID, err
}

// History are all conversations of the organization. A member reads and deletes only its own.
type History struct{ c *Client }

const historyPath = "/api/v1/admin/chat/sessions"

// HistoryFilter selects sessions. Empty fields match every session.
type HistoryFilter struct {
	Agent  string
	User   string // a part of the id or the name
	Source string // hub, push or api
	From   time.Time
	To     time.Time
}

// List yields the sessions, the latest first.
func (h History) List(ctx context.Context, f HistoryFilter) iter.Seq2[wire.ChatSession, error] {
	return list[wire.ChatSession](ctx, h.c, historyPath, url.Values{
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
func (h History) Get(ctx context.Context, id, user string) (wire.ChatSession, error) {
	return get[wire.ChatSession](ctx, h.c, sessionOf(id, user), nil)
}

// Delete deletes a session.
func (h History) Delete(ctx context.Context, id, user string) error {
	return done(ctx, h.c, http.MethodDelete, sessionOf(id, user), nil)
}

// Messages yields the messages of a session, the oldest first.
func (h History) Messages(ctx context.Context, id, user string) iter.Seq2[wire.ChatMessage, error] {
	return list[wire.ChatMessage](ctx, h.c, historyPath+"/"+segment(id)+"/messages", url.Values{"user": {user}})
}

// Transcript yields what happened in a session, as its runtime stored it.
func (h History) Transcript(ctx context.Context, id, user string) iter.Seq2[wire.TranscriptEntry, error] {
	return list[wire.TranscriptEntry](ctx, h.c, historyPath+"/"+segment(id)+"/transcript", url.Values{"user": {user}})
}

// File returns an image or a file of a message. The caller closes it.
func (h History) File(ctx context.Context, id, user, upload string) (*File, error) {
	path := historyPath + "/" + segment(id) + "/uploads/" + segment(upload)
	return h.c.open(ctx, withQuery(path, url.Values{"user": {user}}), 0, false)
}

// Runs yields the answers in progress of the organization.
func (h History) Runs(ctx context.Context) iter.Seq2[wire.ChatRun, error] {
	return list[wire.ChatRun](ctx, h.c, "/api/v1/admin/runs", nil)
}

// CancelRun cancels an answer in progress.
func (h History) CancelRun(ctx context.Context, runID string) error {
	_, err := cancelRun(ctx, h.c, "/api/v1/admin/runs/"+segment(runID)+"/cancel")
	return err
}

// CancelAnswer cancels one answer in progress of any user. The user id is that of [History.Get].
func (h History) CancelAnswer(ctx context.Context, id, user, message string) (string, error) {
	path := historyPath + "/" + segment(id) + "/messages/" + segment(message) + "/cancel"
	return cancelRun(ctx, h.c, withQuery(path, url.Values{"user": {user}}))
}

// Push uploads chats of another program, at most 50 sessions.
func (c *Client) Push(ctx context.Context, req wire.ChatPushRequest) (wire.ChatPushResult, error) {
	r, err := jsonRequest(http.MethodPost, "/api/v1/chat/push", req)
	if err != nil {
		return wire.ChatPushResult{}, err
	}

	if c.cfg.PushKey != "" {
		r.open = true
		r.header.Set("X-Chat-Push-Key", c.cfg.PushKey)
	}

	return decode[wire.ChatPushResult](ctx, c, r)
}
