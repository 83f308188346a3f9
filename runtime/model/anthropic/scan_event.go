package anthropic

import (
	"bytes"

	"github.com/seed93082962/agenthost/runtime/model/internal/jsonscan"
)

// scanEvent reads the other events of most responses in their usual shape. It sets e as
// encoding/json would. If it reports false, e is undefined.
func scanEvent(data []byte, e *event) bool {
	s := jsonscan.Over(data)
	var seen jsonscan.Seen
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch string(key) {
		case "type":
			seen.Once(&s, 0)
			e.Type = word(&s, eventTypes)
		case "index":
			seen.Once(&s, 1)
			e.Index = s.Int()
		case "message":
			seen.Once(&s, 2)
			scanMessage(&s, e)
		case "content_block":
			seen.Once(&s, 3)
			scanBlock(&s, &e.ContentBlock)
		case "delta":
			seen.Once(&s, 4)
			scanStop(&s, &e.Delta)
		case "usage":
			seen.Once(&s, 5)
			scanUsage(&s, &e.Usage)
		case "error":
			s.Fail()
		default:
			s.Skip()
		}
	}
	return e.Type != "" && s.Done()
}

var (
	eventTypes = []string{"content_block_start", "content_block_delta", "content_block_stop", "message_start", "message_delta", "message_stop", "ping"}
	blockTypes = []string{"text", "thinking", "redacted_thinking", "tool_use"}
	deltaTypes = []string{"signature_delta"}
)

// word reads a string that is one of words, without an allocation.
func word(s *jsonscan.Scanner, words []string) string {
	raw := s.Raw()
	for _, w := range words {
		if string(raw) == w {
			return w
		}
	}
	s.Fail()
	return ""
}

// str reads a string or null.
func str(s *jsonscan.Scanner) string {
	if s.Null() {
		return ""
	}
	return s.Whole()
}

func scanMessage(s *jsonscan.Scanner, e *event) {
	var seen jsonscan.Seen
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		if string(key) == "usage" {
			seen.Once(s, 0)
			scanUsage(s, &e.Message.Usage)
		} else {
			s.Skip()
		}
	}
}

func scanUsage(s *jsonscan.Scanner, u *usage) {
	if s.Null() {
		return
	}
	var seen jsonscan.Seen
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		var total *count
		switch string(key) {
		case "input_tokens":
			seen.Once(s, 0)
			total = &u.InputTokens
		case "output_tokens":
			seen.Once(s, 1)
			total = &u.OutputTokens
		case "cache_creation_input_tokens":
			seen.Once(s, 2)
			total = &u.CacheCreationInputTokens
		case "cache_read_input_tokens":
			seen.Once(s, 3)
			total = &u.CacheReadInputTokens
		default:
			s.Skip()
			continue
		}
		if !s.Null() {
			*total = count(s.Int())
		}
	}
}

func scanBlock(s *jsonscan.Scanner, b *contentBlock) {
	var seen jsonscan.Seen
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch string(key) {
		case "type":
			seen.Once(s, 0)
			b.Type = word(s, blockTypes)
		case "text":
			seen.Once(s, 1)
			b.Text = text(str(s))
		case "thinking":
			seen.Once(s, 2)
			b.Thinking = text(str(s))
		case "signature":
			seen.Once(s, 3)
			b.Signature = str(s)
		case "data":
			seen.Once(s, 4)
			b.Data = str(s)
		case "id":
			seen.Once(s, 5)
			b.ID = str(s)
		case "name":
			seen.Once(s, 6)
			b.Name = str(s)
		case "input":
			seen.Once(s, 7)
			b.Input = bytes.Clone(s.Value())
		default:
			s.Skip()
		}
	}
	if b.Type == "" {
		s.Fail()
	}
}

// scanStop reads the delta of a message, and the signature of a block.
func scanStop(s *jsonscan.Scanner, d *delta) {
	var seen jsonscan.Seen
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch string(key) {
		case "type":
			seen.Once(s, 0)
			d.Type = word(s, deltaTypes)
		case "signature":
			seen.Once(s, 1)
			d.Signature = str(s)
		case "stop_reason":
			seen.Once(s, 2)
			d.StopReason = str(s)
		case "text", "thinking", "partial_json":
			s.Fail()
		default:
			s.Skip()
		}
	}
}
