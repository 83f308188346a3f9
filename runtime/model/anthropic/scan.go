package anthropic

import (
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/jsonscan"
)

// scanDelta reads the events that make up nearly all of a stream: increments of text, of thinking
// and of a tool input. It reports false for all others.
func scanDelta(data []byte) (kind model.Kind, index int, increment string, ok bool) {
	s := jsonscan.Over(data)
	const typ, idx, delta = 1, 2, 4
	seen := 0
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch {
		case string(key) == "type" && seen&typ == 0:
			seen |= typ
			if string(s.Raw()) != "content_block_delta" {
				return 0, 0, "", false
			}
		case string(key) == "index" && seen&idx == 0:
			seen |= idx
			index = s.Int()
		case string(key) == "delta" && seen&delta == 0:
			seen |= delta
			kind, increment = scanIncrement(&s)
		default:
			return 0, 0, "", false
		}
	}
	if seen != typ|idx|delta || kind == 0 || !s.Done() {
		return 0, 0, "", false
	}
	return kind, index, increment, true
}

func scanIncrement(s *jsonscan.Scanner) (model.Kind, string) {
	var kind, field model.Kind
	var increment string
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		if string(key) == "type" && kind == 0 {
			switch string(s.Raw()) {
			case "text_delta":
				kind = model.KindText
			case "thinking_delta":
				kind = model.KindThinking
			case "input_json_delta":
				kind = model.KindToolInput
			default:
				s.Fail()
			}
			continue
		}
		if field != 0 {
			s.Fail()
			continue
		}
		switch string(key) {
		case "text":
			field = model.KindText
		case "thinking":
			field = model.KindThinking
		case "partial_json":
			field = model.KindToolInput
		default:
			s.Fail()
			continue
		}
		increment = s.Whole()
	}
	if kind != field {
		s.Fail()
	}
	return kind, increment
}
