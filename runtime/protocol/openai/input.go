package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// content is a text, or a list of parts that are texts.
type content string

// part is one part of a content. Its type names the field that has the text.
type part struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

// UnmarshalJSON decodes a string, null or an array of parts.
func (c *content) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return jsonlimit.Unmarshal(data, (*string)(c))
	}

	var parts []part
	if err := jsonlimit.Unmarshal(data, &parts); err != nil {
		return err
	}

	texts := make([]string, len(parts))
	for i, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text":
			texts[i] = p.Text
		case "refusal":
			texts[i] = p.Refusal
		default:
			return &jsonlimit.Error{Field: fmt.Sprintf("[%d].type", i), Message: "must be text: images, audio and files are not supported"}
		}
	}

	*c = content(strings.Join(texts, "\n\n"))
	return nil
}

// given reports whether a field is present and not null.
func given(value json.RawMessage) bool { return len(value) > 0 && string(value) != "null" }

// Texts in a conversation for what its history has no other form for.
const (
	instructions = "Instructions of the application:\n\n"
	noMessage    = "(no message)" // before a conversation that begins with the assistant
)

// conversation is the history of a request, in which user and assistant alternate.
type conversation []wire.Turn

// add appends a text. It becomes a part of the last turn if that has the same role. An empty text is
// ignored.
func (c *conversation) add(role, text string) {
	list := *c
	switch last := len(list) - 1; {
	case strings.TrimSpace(text) == "":
	case last >= 0 && list[last].Role == role:
		list[last].Content += "\n\n" + text
	case last < 0 && role == runvalue.RoleAssistant:
		*c = conversation{{Role: runvalue.RoleUser, Content: noMessage}, {Role: role, Content: text}}
	default:
		*c = append(list, wire.Turn{Role: role, Content: text})
	}
}

// addCall appends a call of a client tool, and addOutput its result.
func (c *conversation) addCall(name, arguments string) {
	c.add(runvalue.RoleAssistant, "Call of the tool "+name+":\n"+arguments)
}

func (c *conversation) addOutput(name, output string) {
	c.add(runvalue.RoleUser, "Result of the tool "+name+":\n"+output)
}

// split returns the turns before the last one, and its text. param is the field of the request.
func (c *conversation) split(param string) ([]wire.Turn, string, error) {
	list := *c
	last := len(list) - 1
	if last < 0 || list[last].Role != runvalue.RoleUser {
		return nil, "", invalid(param, "must end with a text of the user or the result of a tool")
	}

	return list[:last], list[last].Content, nil
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
