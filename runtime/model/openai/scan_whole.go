package openai

import "github.com/seed93082962/agenthost/runtime/model/internal/jsonscan"

// scanWhole reads the other chunks of most responses in their usual shape: roles, tool calls,
// finish reasons, usage. It sets c as encoding/json would, except for fields that are null or empty
// lists. If it reports false, c is undefined.
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
		case "object":
			if string(s.Raw()) == "error" {
				s.Fail()
			}
		case "base_resp", "message", "detail", "x_groq": // forms of other servers
			s.Fail()
		default:
			s.Skip()
		}
	}
	return s.Done()
}

// str reads a string or null.
func str(s *jsonscan.Scanner) string {
	if s.Null() {
		return ""
	}
	return s.Whole()
}

// optional reads a string or null, which is nil.
func optional(s *jsonscan.Scanner) *text {
	if s.Null() {
		return nil
	}
	return new(text(s.Whole()))
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
				c.Delta = new(delta)
				scanWholeDelta(s, c.Delta)
			}
		case "message":
			s.Fail() // is left to encoding/json
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
		case "reasoning_details", "function_call":
			if !s.Null() {
				s.Fail()
			}
		case "reasoning_content":
			seen.Once(s, 1)
			d.ReasoningContent = optional(s)
		case "reasoning":
			seen.Once(s, 2)
			d.Reasoning = optional(s)
		case "refusal":
			seen.Once(s, 3)
			d.Refusal = text(str(s))
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
		case "type":
			s.Skip()
		default:
			s.Fail() // unknown fields are kept: encoding/json reads them
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
			s.Fail() // as above
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
		case "cached_tokens":
			seen.Once(s, 4)
			u.CachedTokens = total(s)
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

// total reads a count or null.
func total(s *jsonscan.Scanner) count {
	if s.Null() {
		return 0
	}
	return count(s.Int())
}
