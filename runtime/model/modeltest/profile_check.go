package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// profileRequest is a request in the form that the rules of profiles check, with the fields of each
// message.
type profileRequest struct {
	Messages []map[string]json.RawMessage `json:"messages"`

	settings map[string]json.RawMessage // all fields
	roles    []string
	calls    [][]profileCall // of each message
}

type profileCall struct {
	ID       string `json:"id"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
	ExtraContent struct {
		Google struct {
			ThoughtSignature string `json:"thought_signature"`
		} `json:"google"`
	} `json:"extra_content"`
}

func newProfileRequest(r *Request) (*profileRequest, *refusal) {
	q := new(profileRequest)
	if err := errors.Join(json.Unmarshal(r.Body, q), json.Unmarshal(r.Body, &q.settings)); err != nil {
		return q, bad("invalid body: %v", err)
	}

	q.roles = make([]string, len(q.Messages))
	q.calls = make([][]profileCall, len(q.Messages))
	for i, m := range q.Messages {
		if err := json.Unmarshal(m["role"], &q.roles[i]); err != nil {
			return q, bad("messages[%d].role: %v", i, err)
		}

		if present(m["tool_calls"]) {
			if err := json.Unmarshal(m["tool_calls"], &q.calls[i]); err != nil {
				return q, bad("messages[%d].tool_calls: %v", i, err)
			}
		}
	}

	return q, nil
}

// onlyTexts rejects images and files.
func onlyTexts(_ *Request, q *profileRequest) *refusal {
	for i, m := range q.Messages {
		for _, kind := range []string{"image_url", "file"} {
			if strings.Contains(string(m["content"]), `"type":"`+kind+`"`) {
				return bad("Failed to deserialize the JSON body into the target type: messages[%d]: unknown variant `%s`, expected `text`", i, kind)
			}
		}
	}

	return nil
}

// reasoningOfTurns requires the reasoning of every assistant message in a turn with tool calls. A
// turn ends with the next message of the user.
func reasoningOfTurns(_ *Request, q *profileRequest) *refusal {
	for start := 0; start < len(q.Messages); {
		end, called := start+1, false
		for ; end < len(q.Messages) && q.roles[end] != "user"; end++ {
			called = called || len(q.calls[end]) > 0
		}

		for i := start; called && i < end; i++ {
			if q.roles[i] == "assistant" && !q.reasons(i) {
				return bad("The `reasoning_content` in the thinking mode must be passed back to the API.")
			}
		}

		start = end
	}

	return nil
}

func reasoningOfMessages(_ *Request, q *profileRequest) *refusal {
	for i, m := range q.Messages {
		switch {
		case q.roles[i] != "assistant":
		case len(q.calls[i]) > 0 && !q.reasons(i):
			return bad("thinking is enabled but reasoning_content is missing in assistant tool call message at index %d", i)
		case !present(m["reasoning_content"]):
			return bad("preserved thinking (thinking.keep=all) requires reasoning_content on every assistant message, "+
				"but assistant message at index %d is missing reasoning_content", i)
		}
	}

	return nil
}

// reasons reports whether a message has reasoning_content. An empty text counts as missing.
func (q *profileRequest) reasons(i int) bool {
	raw := q.Messages[i]["reasoning_content"]
	return present(raw) && string(raw) != `""`
}

// signature is the form of thoughtSignature. An id that is used twice may be replaced.
var signature = regexp.MustCompile(`^c2ln\+.+/==$`)

// thoughtSignatures requires the signature of the first call of each message in the current turn.
func thoughtSignatures(_ *Request, q *profileRequest) *refusal {
	for i := len(q.Messages) - 1; i >= 0 && q.roles[i] != "user"; i-- {
		calls := q.calls[i]
		if len(calls) > 0 && !signature.MatchString(calls[0].ExtraContent.Google.ThoughtSignature) {
			return bad("Function call is missing a thought_signature in functionCall parts. Additional data, function call "+
				"`default_api:%s`, position %d.", calls[0].Function.Name, i)
		}
	}

	return nil
}

func noUserAfterTool(_ *Request, q *profileRequest) *refusal {
	for i := 1; i < len(q.roles); i++ {
		if q.roles[i] == "user" && q.roles[i-1] == "tool" {
			return bad("Unexpected role 'user' after role 'tool'")
		}
	}

	return nil
}

var shortCallID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

func shortCallIDs(_ *Request, q *profileRequest) *refusal {
	for i, calls := range q.calls {
		ids := make([]string, 0, len(calls)+1)
		for _, c := range calls {
			ids = append(ids, c.ID)
		}

		if raw := q.Messages[i]["tool_call_id"]; present(raw) {
			ids = append(ids, strings.Trim(string(raw), `"`))
		}

		for _, id := range ids {
			if !shortCallID.MatchString(id) {
				return bad("Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", id)
			}
		}
	}

	return nil
}

// longCallIDs is OpenAI's limit of the id of a call.
func longCallIDs(_ *Request, q *profileRequest) *refusal {
	for i, calls := range q.calls {
		for j, c := range calls {
			if len(c.ID) > 40 {
				return bad("Invalid 'messages[%d].tool_calls[%d].id': string too long. Expected a string with maximum length 40.", i, j)
			}
		}
	}

	return nil
}

// contentOrCalls rejects null as content, except next to tool calls.
func contentOrCalls(_ *Request, q *profileRequest) *refusal {
	for i, m := range q.Messages {
		if !present(m["content"]) && len(q.calls[i]) == 0 {
			return bad("invalid message content type: <nil>")
		}
	}

	return nil
}

func contentKey(_ *Request, q *profileRequest) *refusal {
	for i, m := range q.Messages {
		if _, ok := m["content"]; !ok {
			return bad("messages[%d].content: Field required", i)
		}
	}

	return nil
}

// completeDetails requires the reasoning_details of every response that had reasoning, with its
// complete text.
func completeDetails(_ *Request, q *profileRequest) *refusal {
	for i, m := range q.Messages {
		if !present(m["reasoning"]) && !present(m["reasoning_details"]) {
			continue
		}

		var text string
		var details []struct {
			Type  string `json:"type"`
			Text  string `json:"text"`
			Index *int   `json:"index"`
		}
		if json.Unmarshal(m["reasoning"], &text) != nil || json.Unmarshal(m["reasoning_details"], &details) != nil {
			return bad("messages[%d]: reasoning_details are missing", i)
		}

		if len(details) != 1 || details[0].Text != text || details[0].Index == nil {
			return bad("messages[%d]: reasoning_details were changed", i)
		}
	}

	return nil
}

func apiKeyHeader(r *Request, _ *profileRequest) *refusal {
	if r.Header.Get("Api-Key") == "" || r.Header.Get("Authorization") != "" {
		return &refusal{http.StatusUnauthorized, "Access denied due to invalid subscription key."}
	}

	return nil
}

// apiVersion is the query of the older form of Azure's addresses.
func apiVersion(r *Request, _ *profileRequest) *refusal {
	if !strings.HasPrefix(r.Path, "/openai/v1/") && !strings.Contains(r.Query, "api-version=") {
		return &refusal{http.StatusNotFound, "Resource not found"}
	}

	return nil
}

// noMaxTokens is the rule of reasoning models.
func noMaxTokens(_ *Request, q *profileRequest) *refusal {
	if present(q.settings["max_tokens"]) {
		return bad("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
	}

	return nil
}

// shortDescriptions is OpenAI's limit of the description of a function.
func shortDescriptions(_ *Request, q *profileRequest) *refusal {
	var tools []struct {
		Function struct {
			Description string `json:"description"`
		} `json:"function"`
	}
	_ = json.Unmarshal(q.settings["tools"], &tools) // was decoded before
	for i, t := range tools {
		if n := utf8.RuneCountInString(t.Function.Description); n > 1024 {
			return bad("Invalid 'tools[%d].function.description': string too long. Expected a string with maximum length 1024, but got "+
				"a string with length %d instead.", i, n)
		}
	}

	return nil
}

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
