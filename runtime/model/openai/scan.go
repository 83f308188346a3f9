package openai

import (
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/jsonscan"
)

// scanChunk reads the chunks that make up nearly all of a stream: one choice with an increment of
// text or of reasoning, and nothing else that counts. Where it reports false, encoding/json has
// to have a look.
func scanChunk(data []byte) (kind model.Kind, increment string, ok bool) {
	s := jsonscan.Over(data)
	choices := false
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch string(key) {
		case "choices":
			if choices {
				return 0, "", false
			}
			choices = true
			s.Open('[')
			if s.Elem() {
				kind, increment = scanChoice(&s)
			}
			if s.Elem() {
				return 0, "", false
			}
		case "usage", "error":
			if !s.Null() {
				return 0, "", false
			}
		default:
			s.Skip()
		}
	}
	if kind == 0 || !s.Done() {
		return 0, "", false
	}
	return kind, increment, true
}

func scanChoice(s *jsonscan.Scanner) (kind model.Kind, increment string) {
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
			kind, increment = scanDelta(s)
		case string(key) == "index", string(key) == "delta":
			s.Fail() // a second one
		case string(key) == "finish_reason":
			if !s.Null() && s.String() != "" {
				s.Fail()
			}
		case string(key) == "usage":
			if !s.Null() {
				s.Fail()
			}
		default:
			s.Skip()
		}
	}
	return kind, increment
}

func scanDelta(s *jsonscan.Scanner) (kind model.Kind, increment string) {
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
		case "refusal", "tool_calls":
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
		text := s.String()
		if text == "" {
			continue
		}
		if kind != 0 {
			s.Fail() // two increments at once
		}
		kind, increment = field, text
	}
	return kind, increment
}
