package modeltest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Fields that strict servers accept, in messages and in tool calls.
var (
	openaiMessageFields = []string{"role", "content", "name", "refusal", "audio", "tool_calls", "tool_call_id"}
	openaiCallFields    = []string{"id", "type", "function", "function.name", "function.arguments"}

	geminiMessage  = []string{"role", "content", "name", "tool_calls", "tool_call_id", "extra_content"}
	geminiCall     = append([]string{"extra_content"}, openaiCallFields...)
	groqMessage    = []string{"role", "content", "name", "tool_calls", "tool_call_id", "reasoning"}
	mistralMessage = []string{"role", "content", "name", "tool_calls", "tool_call_id", "prefix"}
	mistralCall    = append([]string{"index"}, openaiCallFields...)

	mistralSettings = []string{
		"model", "messages", "stream", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p", "max_tokens", "stop",
		"random_seed", "response_format", "presence_penalty", "frequency_penalty", "n", "prediction", "prompt_mode",
		"reasoning_effort", "safe_prompt", "metadata",
	}
)

// unknown returns the refusal of a field at a place such as messages[2] or
// messages[2].tool_calls[0].
type unknown func(place, field string) *refusal

func openaiUnknown(place, field string) *refusal {
	return bad("Unknown parameter: '%s.%s'.", place, field)
}

func geminiUnknown(place, field string) *refusal {
	return bad("Invalid JSON payload received. Unknown name \"%s\" at '%s': Cannot find field.", field, place)
}

func groqUnknown(place, field string) *refusal {
	place = strings.NewReplacer("[", ".", "]", "").Replace(place)
	return bad("'%s' : for 'role:assistant' the following must be satisfied[('%s' : property '%s' is unsupported)]", place, place, field)
}

func mistralUnknown(place, field string) *refusal {
	return &refusal{http.StatusUnprocessableEntity, fmt.Sprintf("body.%s.%s: Extra inputs are not permitted", place, field)}
}

// onlySettings rejects requests with any other field.
func onlySettings(known []string) rule {
	return func(_ *Request, q *profileRequest) *refusal {
		for field := range q.settings {
			if !slices.Contains(known, field) {
				return &refusal{http.StatusUnprocessableEntity, "body." + field + ": Extra inputs are not permitted"}
			}
		}
		return nil
	}
}

// onlyFields rejects messages and tool calls with any other field.
func onlyFields(message, call []string, refuse unknown) rule {
	return func(_ *Request, q *profileRequest) *refusal {
		for i, m := range q.Messages {
			place := fmt.Sprintf("messages[%d]", i)
			for field := range m {
				if !slices.Contains(message, field) {
					return refuse(place, field)
				}
			}
			var calls []map[string]json.RawMessage
			_ = json.Unmarshal(m["tool_calls"], &calls) // was decoded before
			for j, c := range calls {
				if field, ok := firstUnknown(c, "", call); ok {
					return refuse(fmt.Sprintf("%s.tool_calls[%d]", place, j), field)
				}
			}
		}
		return nil
	}
}

// firstUnknown returns a field of an object, or of the function in it, that is not known.
func firstUnknown(fields map[string]json.RawMessage, prefix string, known []string) (string, bool) {
	for field, value := range fields {
		if !slices.Contains(known, prefix+field) {
			return prefix + field, true
		}
		var inner map[string]json.RawMessage
		if prefix == "" && field == "function" && json.Unmarshal(value, &inner) == nil {
			if field, ok := firstUnknown(inner, "function.", known); ok {
				return field, true
			}
		}
	}
	return "", false
}
