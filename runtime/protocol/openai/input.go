package openai

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// given reports whether a field is present and not null.
func given(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// Texts in a conversation for what its history has no other form for.
const (
	instructions = "Instructions of the application:\n\n"
	noMessage    = "(no message)" // before a conversation that begins with the assistant
)

// conversation is the history of a request, in which user and assistant alternate.
type conversation []wire.Turn

// add appends a text, and images and files of the user. They become a part of the last turn if that
// has the same role. Nothing is added without any.
func (c *conversation) add(role, text string, parts ...wire.ContentPart) {
	list := *c
	if strings.TrimSpace(text) == "" {
		text = ""
	}

	if text == "" && len(parts) == 0 {
		return
	}

	if len(list) == 0 && role == runvalue.RoleAssistant {
		list = append(list, wire.Turn{Role: runvalue.RoleUser, Content: noMessage})
	}

	if len(list) == 0 || list[len(list)-1].Role != role {
		*c = append(list, wire.Turn{Role: role, Content: text, Parts: parts})
		return
	}

	last := &list[len(list)-1]
	switch {
	case text == "":
	case len(last.Parts) > 0: // the text follows them
		parts = slices.Concat([]wire.ContentPart{{Type: runvalue.PartText, Text: text}}, parts)
	case last.Content == "":
		last.Content = text
	default:
		last.Content += paragraph + text
	}

	last.Parts = slices.Concat(last.Parts, parts)
}

// addCall appends a call of a client tool, and addOutput its result.
func (c *conversation) addCall(name, arguments string) {
	c.add(runvalue.RoleAssistant, "Call of the tool "+name+":\n"+arguments)
}

func (c *conversation) addOutput(name, output string) {
	c.add(runvalue.RoleUser, "Result of the tool "+name+":\n"+output)
}

// split returns the turns before the last one, and that. param is the field of the request.
func (c *conversation) split(param string) ([]wire.Turn, wire.Turn, error) {
	list := *c
	last := len(list) - 1
	if last < 0 || list[last].Role != runvalue.RoleUser {
		return nil, wire.Turn{}, invalid(param, "must end with a message of the user or the result of a tool")
	}

	return list[:last], list[last], nil
}

// callID returns the id of a call for the client. It has the session that waits for its result, so
// that the result may come after a restart and from another client.
func callID(sessionID, pendingID string) string {
	return callPrefix + strings.ReplaceAll(pendingID, "-", "") + sessionID
}

const (
	callPrefix = "call_"
	uuidDigits = 32
)

// parseCallID is the inverse of callID. An id of another form has no session.
func parseCallID(id string) (sessionID, pendingID string) {
	rest, ok := strings.CutPrefix(id, callPrefix)
	if !ok || len(rest) <= uuidDigits {
		return "", ""
	}

	d := rest[:uuidDigits]
	return rest[uuidDigits:], strings.Join([]string{d[:8], d[8:12], d[12:16], d[16:20], d[20:]}, "-")
}

// shortDigits is the length of a short UUID.
const shortDigits = 22

// shortID returns a UUID in base64, and another id after a tilde.
func shortID(text string) string {
	id, err := ids.Parse(text)
	if err != nil || id.String() != text {
		return "~" + text
	}

	return base64.RawURLEncoding.EncodeToString(id[:])
}

// parseShortID is the inverse of shortID. Another text has no id.
func parseShortID(text string) string {
	if id, ok := strings.CutPrefix(text, "~"); ok {
		return id
	}

	if len(text) != shortDigits {
		return ""
	}

	var id ids.ID
	if _, err := base64.RawURLEncoding.Decode(id[:], []byte(text)); err != nil {
		return ""
	}

	return id.String()
}
