package openai

import "github.com/seed93082962/agenthost/runtime/model/internal/jsonscan"

// scanWhole reads the chunks of every answer that scanChunk does not, in their usual shape: roles,
// tool calls, finish reasons, usage. It leaves in c what encoding/json would, save for fields that
// are null or empty lists. Where it reports false c is of no use.
func scanWhole(data []byte, c *chunk) bool {
	s := jsonscan.Over(data)
	var seen jsonscan.Seen
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch string(key) {
		case "choices":
			seen.Once(&s, 0)
			if s.Null() {
				continue
			}
			s.Open('[')
			for s.Elem() {
				c.Choices = append(c.Choices, choice{})
				scanWholeChoice(&s, &c.Choices[len(c.Choices)-1])
			}
		case "usage":
			seen.Once(&s, 1)
			c.Usage = scanUsage(&s)
		case "error":
			if !s.Null() {
				s.Fail()
			}
		default:
			s.Skip()
		}
	}
	return s.Done()
}

// str takes a string or null.
func str(s *jsonscan.Scanner) string {
	if s.Null() {
		return ""
	}
	return s.String()
}

func scanWholeChoice(s *jsonscan.Scanner, c *choice) {
	var seen jsonscan.Seen
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch string(key) {
		case "index":
			seen.Once(s, 0)
			c.Index = s.Int()
		case "delta":
			seen.Once(s, 1)
			if !s.Null() {
				scanWholeDelta(s, &c.Delta)
			}
		case "finish_reason":
			seen.Once(s, 2)
			c.FinishReason = str(s)
		case "usage":
			seen.Once(s, 3)
			c.Usage = scanUsage(s)
		default:
			s.Skip()
		}
	}
}

func scanWholeDelta(s *jsonscan.Scanner, d *delta) {
	var seen jsonscan.Seen
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch string(key) {
		case "content":
			seen.Once(s, 0)
			d.Content.Text = str(s) // a list is left to encoding/json
		case "reasoning_content":
			seen.Once(s, 1)
			d.ReasoningContent = str(s)
		case "reasoning":
			seen.Once(s, 2)
			d.Reasoning = str(s)
		case "refusal":
			seen.Once(s, 3)
			d.Refusal = str(s)
		case "tool_calls":
			seen.Once(s, 4)
			if s.Null() {
				continue
			}
			s.Open('[')
			for s.Elem() {
				d.ToolCalls = append(d.ToolCalls, toolDelta{})
				scanTool(s, &d.ToolCalls[len(d.ToolCalls)-1])
			}
		default:
			s.Skip()
		}
	}
}

func scanTool(s *jsonscan.Scanner, t *toolDelta) {
	var seen jsonscan.Seen
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch string(key) {
		case "index":
			seen.Once(s, 0)
			if !s.Null() {
				t.Index = new(s.Int())
			}
		case "id":
			seen.Once(s, 1)
			t.ID = str(s)
		case "function":
			seen.Once(s, 2)
			scanFunction(s, t)
		default:
			s.Skip()
		}
	}
}

func scanFunction(s *jsonscan.Scanner, t *toolDelta) {
	var seen jsonscan.Seen
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch string(key) {
		case "name":
			seen.Once(s, 0)
			t.Function.Name = str(s)
		case "arguments":
			seen.Once(s, 1)
			t.Function.Arguments = arguments(str(s)) // an object is left to encoding/json
		default:
			s.Skip()
		}
	}
}

func scanUsage(s *jsonscan.Scanner) *usage {
	if s.Null() {
		return nil
	}
	u := new(usage)
	var seen jsonscan.Seen
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		switch string(key) {
		case "prompt_tokens":
			seen.Once(s, 0)
			u.PromptTokens = total(s)
		case "completion_tokens":
			seen.Once(s, 1)
			u.CompletionTokens = total(s)
		case "prompt_cache_hit_tokens":
			seen.Once(s, 2)
			u.PromptCacheHitTokens = total(s)
		case "prompt_tokens_details":
			seen.Once(s, 3)
			scanDetails(s, u)
		default:
			s.Skip()
		}
	}
	return u
}

func scanDetails(s *jsonscan.Scanner, u *usage) {
	if s.Null() {
		return
	}
	var seen jsonscan.Seen
	s.Open('{')
	for key := s.Key(); key != nil; key = s.Key() {
		if string(key) == "cached_tokens" {
			seen.Once(s, 0)
			u.PromptTokensDetails.CachedTokens = total(s)
		} else {
			s.Skip()
		}
	}
}

// total takes a count or null.
func total(s *jsonscan.Scanner) int64 {
	if s.Null() {
		return 0
	}
	return int64(s.Int())
}
