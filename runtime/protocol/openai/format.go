package openai

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// format is the format of a response. Of json_schema only the schema has an effect: every output is
// validated, as with strict.
type format struct {
	Type        string          `json:"type"` // text, json_object or json_schema
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Strict      bool            `json:"strict"`
}

// chatFormat is the format of Chat Completions, which has the schema in a member.
type chatFormat struct {
	Type       string `json:"type"`
	JSONSchema format `json:"json_schema"` // without a type
}

func (f chatFormat) outputSchema() (json.RawMessage, error) {
	f.JSONSchema.Type = f.Type
	return f.JSONSchema.outputSchema("response_format")
}

// formatText is the format without a schema.
const formatText = "text"

// anyObject is the schema of the format json_object.
var anyObject = json.RawMessage(`{"type":"object"}`)

// outputSchema returns the schema of the output of a run with the format, or nil for any text.
// param is the field of the request.
func (f format) outputSchema(param string) (json.RawMessage, error) {
	switch f.Type {
	case "", formatText:
		return nil, nil
	case "json_object":
		return anyObject, nil
	case "json_schema":
		if !given(f.Schema) {
			return nil, invalid(param, "must have a schema")
		}

		return f.Schema, nil
	}

	return nil, unsupported(param, "its type must be text, json_object or json_schema")
}

// text returns the field text of a response with the format.
func (f format) text() json.RawMessage {
	var named any = f
	switch f.Type {
	case "", formatText:
		return defaults.Text
	case "json_object":
		named = map[string]string{"type": f.Type}
	}

	text, _ := httpapi.Marshal(map[string]any{"format": named}) // it was decoded from JSON
	return text
}

// outputText returns the only text of a run with an output schema, or nil for none, and whether it
// is a refusal in place of the output.
func outputText(result *wire.Result) (text *string, refused bool) {
	if result.Structured != nil {
		output := string(result.Structured)
		return &output, false
	}

	if result.StopReason == stopRefusal {
		return result.Result, true
	}

	return nil, false
}

// stopRefusal is the stop reason of a model that refuses to respond.
const stopRefusal = "refusal"

// final adds the only message of a run with an output schema.
func (o *output) final(result *wire.Result) {
	text, refused := outputText(result)
	switch {
	case text == nil:
	case refused:
		o.refuse(*text)
	default:
		o.increment(wire.PartialText, *text)
		o.close()
	}
}

// refuse adds a message with a refusal.
func (o *output) refuse(text string) {
	o.close()
	next := item{Type: typeMessage, ID: o.nextID("msg_"), Status: inProgress, Role: runvalue.RoleAssistant, Content: []itemPart{}}
	begun := next
	next.Status, next.Content = completed, []itemPart{{Type: "refusal", Refusal: &text}}
	o.items = append(o.items, next)
	o.bytes += len(text)
	o.refusal(&begun, &next)
}

// refusal sends the events of a message with a refusal.
func (s *responseStream) refusal(begun, i *item) {
	if s.events == nil {
		return
	}

	part := i.Content[0]
	s.item("response.output_item.added", itemEvent{Item: begun})
	s.item("response.content_part.added", itemEvent{ItemID: i.ID, ContentIndex: new(int), Part: &itemPart{Type: part.Type, Refusal: new(string)}})
	s.item("response.refusal.delta", itemEvent{ItemID: i.ID, ContentIndex: new(int), Delta: part.Refusal})
	s.item("response.refusal.done", itemEvent{ItemID: i.ID, ContentIndex: new(int), Refusal: part.Refusal})
	s.item("response.content_part.done", itemEvent{ItemID: i.ID, ContentIndex: new(int), Part: &part})
	s.item("response.output_item.done", itemEvent{Item: i})
	s.index++
}

// withoutText returns the blocks of a message of a run with an output schema, which come before the
// output.
func withoutText(blocks []wire.Block) []wire.Block {
	var rest []wire.Block
	for i := range blocks {
		if blocks[i].Type != wire.PartialText {
			rest = append(rest, blocks[i])
		}
	}

	return rest
}
