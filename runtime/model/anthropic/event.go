package anthropic

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/jsonscan"
)

// text is a string whose incomplete characters upstream.Joiner completes.
type text = jsonscan.Fragment

// count is a number from 0, of tokens or of an index.
type count = jsonscan.Count

// event has the fields of all events of the stream.
type event struct {
	Type    string `json:"type"`
	Index   count  `json:"index"`
	Message struct {
		Content    json.RawMessage `json:"content"` // empty, or the response of a server that does not stream token by token
		StopReason string          `json:"stop_reason"`
		Usage      usage           `json:"usage"`
		Model      json.RawMessage `json:"model"`
	} `json:"message"`
	ContentBlock contentBlock `json:"content_block"`
	Delta        delta        `json:"delta"`
	Usage        usage        `json:"usage"`
}

type contentBlock struct {
	Type      string          `json:"type"`
	Text      text            `json:"text"`
	Thinking  text            `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"` // an object, or its JSON in a string
}

type delta struct {
	Type        string `json:"type"`
	Text        text   `json:"text"`
	Thinking    text   `json:"thinking"`
	Signature   string `json:"signature"`
	PartialJSON text   `json:"partial_json"`
	StopReason  string `json:"stop_reason"` // of message_delta
}

// known are the types of events, blocks and deltas that the decoder reads.
var known = []string{
	"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "error",
	"text", "thinking", "redacted_thinking", "tool_use",
	"text_delta", "thinking_delta", "signature_delta", "input_json_delta",
}

// increment is an increment of a text, of thinking or of a tool input.
type increment struct {
	kind  model.PartKind
	index int
	text  string
}

// scanIncrement reads the events that make up nearly all of a stream, those with one increment. It
// reports false for all others, which encoding/json reads in ten times the time.
func scanIncrement(data []byte) (increment, bool) {
	s := jsonscan.Over(data)
	var typed, indexed, filled bool
	s.Open('{')
	var inc increment
	for key := s.Key(); key != nil; key = s.Key() {
		switch {
		case string(key) == "type" && !typed:
			typed = true
			if string(s.Raw()) != "content_block_delta" {
				return increment{}, false
			}
		case string(key) == "index" && !indexed:
			indexed = true
			inc.index = s.Int()
		case string(key) == "delta" && !filled:
			filled = true
			scanDelta(&s, &inc)
		default:
			return increment{}, false
		}
	}

	return inc, typed && indexed && filled && s.Done()
}

// scanDelta reads an object with two fields: the type of the delta and its text.
func scanDelta(s *jsonscan.Scanner, inc *increment) {
	var field model.PartKind
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		if string(key) == "type" && inc.kind == 0 {
			inc.kind = deltaKinds[string(s.Raw())]
			continue
		}

		if field != 0 {
			s.Fail()
		}

		if field = fieldKinds[string(key)]; field == 0 { // a second type, or an unknown field
			s.Fail()
		}

		inc.text = s.Text()
	}

	if field == 0 || inc.kind != field {
		s.Fail()
	}
}

// The kinds of increments, by the type of the delta and by the field with the text.
var (
	deltaKinds = map[string]model.PartKind{
		"text_delta": model.KindText, "thinking_delta": model.KindThinking, "input_json_delta": model.KindToolInput,
	}
	fieldKinds = map[string]model.PartKind{
		"text": model.KindText, "thinking": model.KindThinking, "partial_json": model.KindToolInput,
	}
)
