package push

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
)

const (
	maxSessions = 50  // sessions of one request
	maxID       = 128 // characters
	maxUserName = 128 // characters
	maxModel    = 200 // characters
	maxContent  = maxBody
)

// request is a push whose lists bound the memory of what they decode.
type request struct {
	wire.ChatPushRequest

	Sessions sessions `json:"sessions"`
}

// plain returns the push as [Service.Push] has it.
func (r request) plain() wire.ChatPushRequest {
	if r.Sessions != nil { // null is not an empty list
		r.ChatPushRequest.Sessions = make([]wire.PushedSession, len(r.Sessions))
	}

	for i, s := range r.Sessions {
		r.ChatPushRequest.Sessions[i] = s.PushedSession
		r.ChatPushRequest.Sessions[i].Messages = s.Messages
	}

	return r.ChatPushRequest
}

// sessions are the sessions of a push. No more are decoded than it takes to reject the push.
type sessions []session

// UnmarshalJSON decodes an array.
func (s *sessions) UnmarshalJSON(data []byte) error {
	return decodeList(data, (*[]session)(s), func(all []session) bool { return len(all) > maxSessions })
}

// session is a session whose messages bound the memory of what they decode.
type session struct {
	wire.PushedSession

	Messages messages `json:"messages"`
}

// messages are the messages of a session. Of an invalid session, those up to the first message
// without a required field are decoded: others are so long that their values are a small multiple
// of the body.
type messages []wire.PushedMessage

// UnmarshalJSON decodes an array.
func (m *messages) UnmarshalJSON(data []byte) error {
	return decodeList(data, (*[]wire.PushedMessage)(m), func(all []wire.PushedMessage) bool {
		one := all[len(all)-1]
		return one.ID == "" || one.Role == "" || one.CreatedAt == "" || len(one.Content) == 0
	})
}

// decodeList decodes an array, up to the element after which enough reports true.
func decodeList[T any](data []byte, into *[]T, enough func([]T) bool) error {
	all, err := elements(data)
	if all == nil {
		return err
	}

	*into = []T{}
	for raw := range all {
		var one T
		if err := jsonlimit.Unmarshal(raw, &one); err != nil {
			return err
		}

		if *into = append(*into, one); enough(*into) {
			break
		}
	}

	return nil
}

// elements returns the elements of a JSON array, or nil of null. The syntax of data is valid.
func elements(data []byte) (iter.Seq[[]byte], error) {
	if data[0] != '[' {
		return nil, json.Unmarshal(data, new([]any)) // nil for null, otherwise an error that names the type
	}

	return jsonlimit.Elements(data), nil
}

// checkSession returns the session as it is stored, or the first fault.
func checkSession(in wire.PushedSession) (chat.Upload, error) {
	u := chat.Upload{
		ID: in.ID, AgentName: in.AgentName, UserName: in.UserName, Title: api.Plain(relay.Clean(in.Title)),
		Messages: make([]chat.UploadedMessage, len(in.Messages)),
	}
	err := checkID(in.ID)
	if err == nil {
		u.CreatedAt, err = parseTime("created_at", in.CreatedAt)
	}

	if err == nil {
		u.UpdatedAt, err = parseTime("updated_at", in.UpdatedAt)
	}

	if err != nil {
		return u, err
	}

	known := make(map[string]bool, len(in.Messages))
	for i, message := range in.Messages {
		u.Messages[i], err = checkMessage(message)
		if err == nil && known[message.ID] {
			err = fmt.Errorf("id %q occurs twice", message.ID)
		}

		if err != nil {
			return u, fmt.Errorf("messages[%d]: %w", i, err)
		}

		known[message.ID] = true
	}

	if reason := checkLine(in.UserName, maxUserName); in.UserName != "" && reason != "" {
		return u, fmt.Errorf("user_name %s", reason)
	}

	return u, nil
}

func checkMessage(in wire.PushedMessage) (chat.UploadedMessage, error) {
	m := chat.UploadedMessage{ID: in.ID, Role: in.Role, Usage: in.Usage}
	if err := checkID(in.ID); err != nil {
		return m, err
	}

	if in.Role != runvalue.RoleUser && in.Role != runvalue.RoleAssistant {
		return m, fmt.Errorf("role must be %s or %s", runvalue.RoleUser, runvalue.RoleAssistant)
	}

	fields := api.Fields{}
	if m.Model = fields.Line("model", in.Model, 0, maxModel); len(fields) > 0 {
		return m, fmt.Errorf("model %s", fields["model"])
	}

	var err error
	if m.CreatedAt, err = parseTime("created_at", in.CreatedAt); err != nil {
		return m, err
	}

	m.Text, m.Content, err = parseContent(in.Content)
	return m, err
}

// checkID accepts ids that can be a segment of a path.
func checkID(id string) error {
	reason := checkLine(id, maxID)
	if strings.Contains(id, "/") || id == "." || id == ".." {
		reason = "must not be a path"
	}

	if reason != "" {
		return errors.New("id " + reason)
	}

	return nil
}

// checkLine returns the reason why a text is not a line without white space around it, or "".
func checkLine(text string, most int) string {
	fields := api.Fields{}
	if fields.Line("", text, 1, most) != text && len(fields) == 0 {
		return "must not begin or end with white space"
	}

	return fields[""]
}

// parseTime accepts the times that every client can decode.
func parseTime(field, value string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return t, fmt.Errorf("%s must be a time in the form of RFC 3339, such as 2006-01-02T15:04:05Z", field)
	}

	t = t.UTC().Truncate(time.Microsecond)
	if year := t.Year(); year < 1970 || year > 9999 {
		return t, fmt.Errorf("%s must be in the years 1970 to 9999", field)
	}

	return t, nil
}

// parseContent returns the text of content, and its blocks if it is not a text.
func parseContent(content json.RawMessage) (string, string, error) {
	var text string
	if bytes.HasPrefix(content, []byte(`"`)) && jsonlimit.Unmarshal(content, &text) == nil {
		return relay.Clean(text), "", nil
	}

	if !bytes.HasPrefix(content, []byte("[")) {
		return "", "", errors.New("content must be a string or an array of blocks")
	}

	var texts []string
	stored := []byte{'['}
	n := 0
	for raw := range jsonlimit.Elements(content) {
		block, err := relay.DecodeBlock(raw)
		if err != nil {
			return "", "", relay.At(n, err)
		}

		if block.Text != "" {
			texts = append(texts, relay.Clean(block.Text))
		}

		if n++; n > 1 {
			stored = append(stored, ',')
		}

		if stored = append(stored, block.JSON...); len(stored) > maxContent {
			return "", "", fmt.Errorf("content must have at most %d bytes with all members of its blocks", maxContent)
		}
	}

	return strings.Join(texts, "\n\n"), relay.Clean(string(append(stored, ']'))), nil
}
