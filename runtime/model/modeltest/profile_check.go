package modeltest

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
)

// profileRequest is a request in the form that the rules of profiles check, with the fields of each
// message.
type profileRequest struct {
	StreamOptions json.RawMessage              `json:"stream_options"`
	Messages      []map[string]json.RawMessage `json:"messages"`

	roles []string
	calls [][]profileCall // of each message
}

type profileCall struct {
	ID           string `json:"id"`
	ExtraContent struct {
		Google struct {
			ThoughtSignature string `json:"thought_signature"`
		} `json:"google"`
	} `json:"extra_content"`
}

func newProfileRequest(r *Request) (*profileRequest, *refusal) {
	q := new(profileRequest)
	if err := json.Unmarshal(r.Body, q); err != nil {
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

// reasoningWithCalls is the rule of thinking modes.
func reasoningWithCalls(_ *Request, q *profileRequest) *refusal {
	for i, m := range q.Messages {
		if len(q.calls[i]) > 0 && !present(m["reasoning_content"]) {
			return bad("thinking is enabled but reasoning_content is missing in assistant tool call message at index %d", i)
		}
	}
	return nil
}

func thoughtSignatures(_ *Request, q *profileRequest) *refusal {
	for _, calls := range q.calls {
		if len(calls) > 0 && calls[0].ExtraContent.Google.ThoughtSignature != thoughtSignature(calls[0].ID) {
			return bad("Function call is missing a thought_signature in functionCall parts.")
		}
	}
	return nil
}

// onlyFields rejects messages with any other field.
func onlyFields(known ...string) rule {
	return func(_ *Request, q *profileRequest) *refusal {
		for i, m := range q.Messages {
			for name := range m {
				if !slices.Contains(known, name) {
					return &refusal{http.StatusUnprocessableEntity,
						bad("messages[%d]: property '%s' is unsupported", i, name).message}
				}
			}
		}
		return nil
	}
}

func noStreamOptions(_ *Request, q *profileRequest) *refusal {
	if present(q.StreamOptions) {
		return &refusal{http.StatusUnprocessableEntity, "stream_options: Extra inputs are not permitted"}
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
	for _, calls := range q.calls {
		for _, c := range calls {
			if !shortCallID.MatchString(c.ID) {
				return bad("Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", c.ID)
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
