package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/jsonscan"
)

// text is a string whose incomplete characters upstream.Joiner completes.
type text = jsonscan.Fragment

// count is a number from 0, of tokens or of an index.
type count = jsonscan.Count

// chunk is the data of every event.
type chunk struct {
	Model   json.RawMessage `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	XGroq   groq            `json:"x_groq"`
}

// groq has the usage of Groq, which is in the last chunk even if the request did not ask for it,
// and the reason why a response ended early.
type groq struct {
	Usage *usage `json:"usage"`
	Error text   `json:"error"`
}

type choice struct {
	Index        count  `json:"index"`
	Delta        *delta `json:"delta"`
	Message      *delta `json:"message"` // everything so far: servers that do not stream token by token
	FinishReason string `json:"finish_reason"`
	Native       any    `json:"native_finish_reason"` // of the server behind a gateway (OpenRouter)
	Usage        *usage `json:"usage"`                // the place of some servers
}

type delta struct {
	Content          content           `json:"content"`
	ReasoningContent *reasoning        `json:"reasoning_content"` // present and empty differs from absent
	Reasoning        *reasoning        `json:"reasoning"`         // the same under another name
	ReasoningDetails []json.RawMessage `json:"reasoning_details"` // OpenRouter
	Refusal          text              `json:"refusal"`
	ToolCalls        []toolDelta       `json:"tool_calls"`
	FunctionCall     *functionDelta    `json:"function_call"` // the older form of one tool call
}

// kinds are the kinds of content that have come.
type kinds struct{ text, thinking, calls bool }

// add adds the kinds of c.
func (k *kinds) add(c *delta) {
	thinks := c.Content.Thinking != "" || c.ReasoningContent != nil && *c.ReasoningContent != "" || c.Reasoning != nil && *c.Reasoning != ""
	k.thinking = k.thinking || thinks || len(c.ReasoningDetails) > 0
	k.text = k.text || c.Content.Text != "" || c.Refusal != ""
	k.calls = k.calls || len(c.ToolCalls) > 0 || c.FunctionCall != nil
}

// drop removes the content of some kinds.
func (d *delta) drop(k kinds) {
	if k.text {
		d.Content.Text, d.Refusal = "", ""
	}

	if k.thinking {
		d.Content.Thinking, d.ReasoningDetails = "", nil
		d.ReasoningContent, d.Reasoning = nil, nil
	}

	if k.calls {
		d.ToolCalls, d.FunctionCall = nil, nil
	}
}

type toolDelta struct {
	Index    *count        `json:"index"` // absent on some servers
	ID       string        `json:"id"`
	Function functionDelta `json:"function"`

	// Extra are the unknown fields of the call, and below "function" those of the function.
	Extra map[string]json.RawMessage `json:"-"`
}

type functionDelta struct {
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`
}

// empty reports whether a fragment has no content.
func (t *toolDelta) empty() bool {
	return t.ID == "" && t.Function == functionDelta{} && len(t.Extra) == 0
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *toolDelta) UnmarshalJSON(raw []byte) error {
	type known toolDelta
	if err := json.Unmarshal(raw, (*known)(t)); err != nil {
		return err
	}

	call, err := unknownFields(raw, "index", "id", "type", "function")
	if err != nil {
		return err
	}

	var fields struct {
		Function json.RawMessage `json:"function"`
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}

	function, err := unknownFields(fields.Function, "name", "arguments")
	if err != nil {
		return err
	}

	if len(function) > 0 {
		if call == nil {
			call = map[string]json.RawMessage{}
		}

		if call["function"], err = json.Marshal(function); err != nil {
			return err
		}
	}

	t.Extra = call
	return nil
}

// unknownFields returns the fields of an object that are neither null nor named. Names match as in
// encoding/json: in any letter case.
func unknownFields(raw json.RawMessage, known ...string) (map[string]json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}

	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}

	for name, value := range all {
		drop := string(value) == "null"
		for _, k := range known {
			drop = drop || strings.EqualFold(k, name)
		}

		if drop {
			delete(all, name)
		}
	}

	if len(all) == 0 {
		return nil, nil
	}

	return all, nil
}

// content is a string, or a list of pieces, of which those of text and thinking are read.
type content struct {
	Text, Thinking string
	IsList         bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '[' {
		return (*text)(&c.Text).UnmarshalJSON(raw)
	}

	var pieces []struct {
		Type     string  `json:"type"`
		Text     text    `json:"text"`
		Thinking content `json:"thinking"`
	}
	if err := json.Unmarshal(raw, &pieces); err != nil {
		return err
	}

	c.IsList = true
	for _, p := range pieces {
		switch p.Type {
		case "text":
			c.Text += string(p.Text)
		case "thinking":
			c.Thinking += p.Thinking.Text
		}
	}

	return nil
}

// reasoning is a string, or an object with a text (Envoy in front of Bedrock), or a list of them.
type reasoning string

// UnmarshalJSON implements json.Unmarshaler.
func (r *reasoning) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '{' {
		raw = slices.Concat([]byte{'['}, raw, []byte{']'})
	}

	if len(raw) == 0 || raw[0] != '[' {
		return (*text)(r).UnmarshalJSON(raw)
	}

	var pieces []struct {
		Text text `json:"text"`
	}
	err := json.Unmarshal(raw, &pieces)
	for _, p := range pieces {
		*r += reasoning(p.Text)
	}

	return err
}

// arguments is a string that holds JSON or a fragment of it. Some servers send the object itself.
type arguments string

// UnmarshalJSON implements json.Unmarshaler.
func (a *arguments) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '{' {
		*a = arguments(bytes.Clone(raw))
		return nil
	}

	return (*text)(a).UnmarshalJSON(raw)
}

// increment is an increment of a text or of thinking.
type increment struct {
	kind    model.PartKind // KindText or KindThinking
	text    string
	reasons bool // the chunk has a field for thinking that is not null
}

func (inc *increment) index() int {
	if inc.kind == model.KindThinking {
		return indexThinking
	}

	return indexText
}

// scanChunk reads the chunks that make up nearly all of a stream: one choice with an increment of
// text or of thinking, and no other content. It reports false for all others.
func scanChunk(data []byte) (increment, bool) {
	s := jsonscan.Over(data)
	choices := false
	s.Open('{')
	var inc increment
	for key := s.Key(); key != nil; key = s.Key() {
		switch string(key) {
		case "choices":
			if choices {
				return increment{}, false
			}

			choices = true
			s.Open('[')
			if s.Elem() {
				scanChoice(&s, &inc)
			}

			if s.Elem() {
				return increment{}, false
			}
		case "usage", "error", "x_groq", "base_resp":
			if !s.Null() {
				return increment{}, false
			}
		case "object":
			if string(s.Raw()) == "error" {
				return increment{}, false
			}
		default:
			s.Skip()
		}
	}

	if inc.kind == 0 || !s.Done() {
		return increment{}, false
	}

	return inc, true
}

func scanChoice(s *jsonscan.Scanner, inc *increment) {
	const idx, delta = 1, 2
	seen := 0
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch {
		case string(key) == "index" && seen&idx == 0:
			seen |= idx
			if s.Int() != 0 {
				s.Fail()
			}
		case string(key) == "delta" && seen&delta == 0:
			seen |= delta
			scanDelta(s, inc)
		case string(key) == "index", string(key) == "delta", string(key) == "message":
			s.Fail() // a second one, or another form
		case string(key) == "finish_reason":
			if !s.Null() && s.Text() != "" {
				s.Fail()
			}
		case string(key) == "usage", string(key) == "native_finish_reason":
			if !s.Null() {
				s.Fail()
			}
		default:
			s.Skip()
		}
	}
}

func scanDelta(s *jsonscan.Scanner, inc *increment) {
	const content, reasoning, otherReasoning = 1, 2, 4
	seen := 0
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		var bit int
		field := model.KindThinking
		switch string(key) {
		case "content":
			bit, field = content, model.KindText
		case "reasoning_content":
			bit = reasoning
		case "reasoning":
			bit = otherReasoning
		case "refusal", "tool_calls", "function_call", "reasoning_details":
			if !s.Null() {
				s.Fail()
			}

			continue
		default:
			s.Skip()
			continue
		}

		if seen&bit != 0 {
			s.Fail()
		}

		seen |= bit
		if s.Null() {
			continue
		}

		inc.reasons = inc.reasons || field == model.KindThinking
		text := s.Text()
		if text == "" {
			continue
		}

		if inc.kind != 0 {
			s.Fail() // two increments in one chunk
		}

		inc.kind, inc.text = field, text
	}
}
