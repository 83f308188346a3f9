package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model/internal/jsonscan"
)

// text is a string whose incomplete characters upstream.Joiner completes.
type text = jsonscan.Fragment

// count is a number of tokens.
type count = jsonscan.Count

// chunk is the data of every event.
type chunk struct {
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
	XGroq   groq            `json:"x_groq"`
}

// groq has the usage of Groq, which is in the last chunk even if the request did not ask for it,
// and the reason why a response ended early.
type groq struct {
	Usage *usage `json:"usage"`
	Error text   `json:"error"`
}

type choice struct {
	Index        int    `json:"index"`
	Delta        *delta `json:"delta"`
	Message      *delta `json:"message"` // instead of delta: servers that do not stream token by token
	FinishReason string `json:"finish_reason"`
	Usage        *usage `json:"usage"` // the place of some servers
}

type delta struct {
	Content          content           `json:"content"`
	ReasoningContent *text             `json:"reasoning_content"` // present and empty differs from absent
	Reasoning        *text             `json:"reasoning"`         // the same under another name
	ReasoningDetails []json.RawMessage `json:"reasoning_details"` // OpenRouter
	Refusal          text              `json:"refusal"`
	ToolCalls        []toolDelta       `json:"tool_calls"`
	FunctionCall     *functionDelta    `json:"function_call"` // the older form of one tool call
}

type toolDelta struct {
	Index    *int          `json:"index"` // absent on some servers
	ID       string        `json:"id"`
	Function functionDelta `json:"function"`

	// Extra are the unknown fields of the call, and below "function" those of the function.
	Extra map[string]json.RawMessage `json:"-"`
}

type functionDelta struct {
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`
}

// empty reports whether a fragment has no content.
func (t *toolDelta) empty() bool {
	return t.ID == "" && t.Function == functionDelta{} && len(t.Extra) == 0
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *toolDelta) UnmarshalJSON(raw []byte) error {
	type known toolDelta
	if err := json.Unmarshal(raw, (*known)(t)); err != nil {
		return err
	}
	call, err := unknownFields(raw, "index", "id", "type", "function")
	if err != nil {
		return err
	}
	var fields struct {
		Function json.RawMessage `json:"function"`
	}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	function, err := unknownFields(fields.Function, "name", "arguments")
	if err != nil {
		return err
	}
	if len(function) > 0 {
		if call == nil {
			call = map[string]json.RawMessage{}
		}
		if call["function"], err = json.Marshal(function); err != nil {
			return err
		}
	}
	t.Extra = call
	return nil
}

// unknownFields returns the fields of an object that are neither null nor named. Names match as in
// encoding/json: in any letter case.
func unknownFields(raw json.RawMessage, known ...string) (map[string]json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	for name, value := range all {
		drop := string(value) == "null"
		for _, k := range known {
			drop = drop || strings.EqualFold(k, name)
		}
		if drop {
			delete(all, name)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

type usage struct {
	PromptTokens        count `json:"prompt_tokens"`
	CompletionTokens    count `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens count `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	PromptCacheHitTokens count `json:"prompt_cache_hit_tokens"` // the same under another name (DeepSeek)
	CachedTokens         count `json:"cached_tokens"`           // the same (Kimi)
}

// UnmarshalJSON implements json.Unmarshaler. A value of another kind does not fail a run: the
// fields that can be read are set.
func (u *usage) UnmarshalJSON(raw []byte) error {
	type fields usage
	_ = json.Unmarshal(raw, (*fields)(u))
	return nil
}

// content is a string, or a list of pieces, of which those of text and thinking are read.
type content struct {
	Text, Thinking string
	IsList         bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '[' {
		return (*text)(&c.Text).UnmarshalJSON(raw)
	}
	var pieces []struct {
		Type     string  `json:"type"`
		Text     text    `json:"text"`
		Thinking content `json:"thinking"`
	}
	if err := json.Unmarshal(raw, &pieces); err != nil {
		return err
	}
	c.IsList = true
	for _, p := range pieces {
		switch p.Type {
		case "text":
			c.Text += string(p.Text)
		case "thinking":
			c.Thinking += p.Thinking.Text
		}
	}
	return nil
}

// arguments is a string that holds JSON or a fragment of it. Some servers send the object itself.
type arguments string

// UnmarshalJSON implements json.Unmarshaler.
func (a *arguments) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '{' {
		*a = arguments(bytes.Clone(raw))
		return nil
	}
	return (*text)(a).UnmarshalJSON(raw)
}
