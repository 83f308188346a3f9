package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
)

const (
	maxPushed   = 50  // sessions of one request
	maxPushedID = 128 // characters
	maxUserName = 128 // characters
)

// PushInput has the sessions of a push. Org is the organization of a push with the key.
type PushInput struct {
	Org      string          `json:"org"`
	Sessions []PushedSession `json:"sessions"`
}

// PushedSession is a chat of another program. Times are RFC 3339.
type PushedSession struct {
	ID        string          `json:"id"` // unique for its user
	AgentName string          `json:"agent_name"`
	UserName  string          `json:"user_name"` // required with the key
	Title     string          `json:"title"`     // Defaults to the start of the first message.
	CreatedAt string          `json:"created_at"`
	UpdatedAt string          `json:"updated_at"`
	Messages  []PushedMessage `json:"messages"`
}

// PushedMessage is a message of a PushedSession. Content is a text or an array of blocks.
type PushedMessage struct {
	ID        string          `json:"id"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Model     string          `json:"model"`
	Usage     *Usage          `json:"usage"`
	CreatedAt string          `json:"created_at"`
}

// check returns the rows of a pushed session, or the first fault.
func (in PushedSession) check() (session, []message, error) {
	s := session{Key: ids.New(), ID: in.ID, AgentName: in.AgentName, UserName: in.UserName, Source: sourcePush, Messages: int64(len(in.Messages))}
	var err error
	if err := checkPushedID("id", in.ID); err != nil {
		return s, nil, err
	}
	if s.CreatedAt, err = pushedTime("created_at", in.CreatedAt); err != nil {
		return s, nil, err
	}
	if s.UpdatedAt, err = pushedTime("updated_at", in.UpdatedAt); err != nil {
		return s, nil, err
	}
	s.Title = excerpt.Characters(strings.TrimSpace(api.Plain(clean(in.Title))), maxTitle)
	messages := make([]message, len(in.Messages))
	known := make(map[string]bool, len(in.Messages))
	for i, pushed := range in.Messages {
		m, err := pushed.check()
		if err == nil && known[m.ID] {
			err = fmt.Errorf("id %q occurs twice", m.ID)
		}
		if err != nil {
			return s, nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		known[m.ID] = true
		m.Seq = int64(i + 1)
		messages[i] = m
		if s.Title == "" && m.Role == roleUser {
			s.Title = titleOf(m.Text)
		}
		s.LastMessageAt = m.CreatedAt
	}
	s.Size = sizeOf(messages...)
	return s, messages, nil
}

func (in PushedMessage) check() (message, error) {
	m := message{ID: in.ID, Role: in.Role, Status: statusCompleted, Model: in.Model, Usage: in.Usage}
	if err := checkPushedID("id", in.ID); err != nil {
		return m, err
	}
	if in.Role != roleUser && in.Role != roleAssistant {
		return m, fmt.Errorf("role must be %s or %s", roleUser, roleAssistant)
	}
	fields := api.Fields{}
	if m.Model = fields.Line("model", in.Model, 0, maxModel); len(fields) > 0 {
		return m, fmt.Errorf("model %s", fields["model"])
	}
	var err error
	if m.CreatedAt, err = pushedTime("created_at", in.CreatedAt); err != nil {
		return m, err
	}
	m.Text, m.Content, err = pushedContent(in.Content)
	return m, err
}

// checkPushedID accepts ids that can be a segment of a path.
func checkPushedID(field, id string) error {
	switch fields := (api.Fields{}); {
	case fields.Line(field, id, 1, maxPushedID) != id && len(fields) == 0:
		return fmt.Errorf("%s must not begin or end with white space", field)
	case len(fields) > 0:
		return fmt.Errorf("%s %s", field, fields[field])
	case strings.Contains(id, "/"), id == ".", id == "..":
		return fmt.Errorf("%s must not be a path", field)
	}
	return nil
}

func pushedTime(field, value string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return t, fmt.Errorf("%s must be a time in the form of RFC 3339, such as 2006-01-02T15:04:05Z", field)
	}
	return t.UTC().Truncate(time.Microsecond), nil
}

// pushedContent returns the text of content, and its blocks if it is not a text.
func pushedContent(content json.RawMessage) (text, blocks string, err error) {
	if json.Unmarshal(content, &text) == nil && len(content) > 0 && content[0] == '"' {
		return clean(text), "", nil
	}
	var list []json.RawMessage
	if json.Unmarshal(content, &list) != nil || list == nil {
		return "", "", fmt.Errorf("content must be a string or an array of blocks")
	}
	for i, raw := range list {
		var block struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(raw, &block) != nil || block.Type == "" {
			return "", "", fmt.Errorf("content[%d] must be an object with a type", i)
		}
		if block.Type == "text" {
			text = paragraphs(text, clean(block.Text))
		}
	}
	return text, clean(string(content)), nil
}

// checkUserName returns the reason why a name cannot be that of a user, or "".
func checkUserName(name string) string {
	fields := api.Fields{}
	if fields.Line("user_name", name, 1, maxUserName) != name && len(fields) == 0 && utf8.ValidString(name) {
		return "must not begin or end with white space"
	}
	return fields["user_name"]
}
