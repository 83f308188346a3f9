package openai

import (
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/jsonscan"
)

// scanned is what scanChunk reads.
type scanned struct {
	kind    model.Kind // KindText or KindThinking
	text    string     // the increment
	reasons bool       // the chunk has a field for thinking that is not null
}

// scanChunk reads the chunks that make up nearly all of a stream: one choice with an increment of
// text or of thinking, and no other content. It reports false for all others.
func scanChunk(data []byte) (c scanned, ok bool) {
	s := jsonscan.Over(data)
	choices := false
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch string(key) {
		case "choices":
			if choices {
				return scanned{}, false
			}
			choices = true
			s.Open('[')
			if s.Elem() {
				scanChoice(&s, &c)
			}
			if s.Elem() {
				return scanned{}, false
			}
		case "usage", "error", "x_groq", "base_resp":
			if !s.Null() {
				return scanned{}, false
			}
		case "object":
			if string(s.Raw()) == "error" {
				return scanned{}, false
			}
		default:
			s.Skip()
		}
	}
	if c.kind == 0 || !s.Done() {
		return scanned{}, false
	}
	return c, true
}

func scanChoice(s *jsonscan.Scanner, c *scanned) {
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
			scanDelta(s, c)
		case string(key) == "index", string(key) == "delta", string(key) == "message":
			s.Fail() // a second one, or another form
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
}

func scanDelta(s *jsonscan.Scanner, c *scanned) {
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
		c.reasons = c.reasons || field == model.KindThinking
		text := s.Whole()
		if text == "" {
			continue
		}
		if c.kind != 0 {
			s.Fail() // two increments in one chunk
		}
		c.kind, c.text = field, text
	}
}
