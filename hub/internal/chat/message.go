package chat

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/runvalue"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// Roles of a message.
const (
	roleUser      = runvalue.RoleUser
	roleAssistant = runvalue.RoleAssistant
)

// message is a row of chat_messages.
type message struct {
	ID, ClientID, Role, Status string

	Seq       int64
	Text      string // without the notice
	Content   string // a JSON array without the notice; "" for one block with Text
	Files     int    // images and files of Content, of a message of a user that the hub has received
	RunID     string
	Model     string
	Usage     *runtimewire.Usage
	AIGC      json.RawMessage
	Budgets   []wire.Budget
	Pending   string // see relay.Wait: of an answer that waits, and while a run continues it
	Notice    string
	NoticeAt  aigc.Mode // append or prepend
	Failure   wire.ChatError
	CreatedAt time.Time
	Started   bool // of an answer: the runtime may have accepted the run
}

// view returns a message of a session. A failure has what explain adds to it.
func (m message) view(sessionID string, explain func(wire.ChatError) *wire.ChatError) wire.ChatMessage {
	v := wire.ChatMessage{
		ID: m.ID, SessionID: sessionID, Seq: m.Seq, Role: m.Role, Text: m.Text, Status: m.Status, RunID: m.RunID, Model: m.Model,
		Usage: m.Usage, AIGC: m.AIGC, Budgets: m.Budgets, CreatedAt: wire.Time{Time: m.CreatedAt},
	}
	if wait, err := m.wait(); err == nil && len(wait.Calls) > 0 {
		v.Status, v.Pending = relay.StatusWaiting, wait.Pending()
	}

	if m.Failure.Code != "" {
		v.Error = explain(m.Failure)
	}

	v.Content = relay.Labelled(m.Text, m.Content, m.Notice, m.NoticeAt)
	if m.Notice != "" && relay.Generated(m.Text, m.Content) {
		if v.Text = relay.Paragraphs(m.Text, m.Notice); m.NoticeAt == aigc.ModePrepend {
			v.Text = relay.Paragraphs(m.Notice, m.Text)
		}
	}

	return v
}

// wait returns what an answer waits for, or nothing.
func (m message) wait() (relay.Wait, error) {
	if m.Pending == "" || m.Status != relay.StatusCompleted {
		return relay.Wait{}, nil
	}

	return relay.WaitOf(m.Pending)
}

// maxPageBytes bounds the JSON of a page of messages. A page has at least one message, also a
// longer one.
const maxPageBytes = 4 << 20

// MessageList is a page of messages, which has fewer than the size of the page if they are more
// than 4 MiB.
type MessageList = api.List[wire.ChatMessage]

// Messages returns the messages of a session of the caller, the oldest first.
func (s *Service) Messages(ctx context.Context, caller api.Caller, agentName, id string, page api.Page) (MessageList, error) {
	ref, err := s.ownedBy(ctx, caller, agentName, id)
	if err != nil {
		return MessageList{}, err
	}

	return s.messages(ctx, ref, page)
}

func (s *Service) messages(ctx context.Context, ref reference, page api.Page) (MessageList, error) {
	found, err := findSession(ctx, s.store.Read(), ref)
	if err != nil {
		return MessageList{}, err
	}

	after := int64(page.Offset())
	list := MessageList{Items: []wire.ChatMessage{}, Total: int(found.Messages)}
	messages, err := messagesOf(ctx, s.store.Read(), found, after, min(after+int64(page.Size), found.Messages))
	size := 0
	explain := s.relay.Remedies(ctx, ref.TenantID, found.AgentName)
	for _, m := range messages {
		v := m.view(found.ID, explain)
		if size += encodedSize(v) + len(m.Pending); size > maxPageBytes && len(list.Items) > 0 {
			break
		}

		list.Items = append(list.Items, v)
	}

	return list, err
}

// encodedSize returns at least the number of bytes of a message in JSON.
func encodedSize(m wire.ChatMessage) int {
	const fixed = 2 << 10 // of the ids, the model, the label and the error
	return fixed + quoted(m.Text) + len(m.Content)
}

// quoted returns the length of a text in JSON. Only U+2028 and U+2029 are longer.
func quoted(text string) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t', c == '\b', c == '\f':
			n++
		case c < ' ':
			n += len(`u0000`)
		}
	}

	return n
}
