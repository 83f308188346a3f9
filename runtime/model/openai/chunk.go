package openai

import (
	"bytes"
	"encoding/json"
)

// chunk is the data of every event.
type chunk struct {
	Choices []choice        `json:"choices"`
	Usage   *usage          `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index        int    `json:"index"`
	Delta        delta  `json:"delta"`
	FinishReason string `json:"finish_reason"`
	Usage        *usage `json:"usage"` // where some servers put it
}

type delta struct {
	Content          content     `json:"content"`
	ReasoningContent string      `json:"reasoning_content"`
	Reasoning        string      `json:"reasoning"` // the same by another name
	Refusal          string      `json:"refusal"`
	ToolCalls        []toolDelta `json:"tool_calls"`
}

type toolDelta struct {
	Index    *int   `json:"index"` // left out by some servers
	ID       string `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
	} `json:"function"`
}

type usage struct {
	PromptTokens        int64 `json:"prompt_tokens"`
	CompletionTokens    int64 `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	PromptCacheHitTokens int64 `json:"prompt_cache_hit_tokens"` // the same by another name
}

// content is a string, or a list of pieces of which text and thinking count.
type content struct {
	Text, Thinking string
}

func (c *content) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] != '[' {
		return json.Unmarshal(raw, &c.Text)
	}
	var pieces []struct {
		Type     string  `json:"type"`
		Text     string  `json:"text"`
		Thinking content `json:"thinking"`
	}
	if err := json.Unmarshal(raw, &pieces); err != nil {
		return err
	}
	for _, p := range pieces {
		switch p.Type {
		case "text":
			c.Text += p.Text
		case "thinking":
			c.Thinking += p.Thinking.Text
		}
	}
	return nil
}

// arguments is a string that holds JSON or a fragment of it; some servers send the object itself.
type arguments string

func (a *arguments) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '{' {
		*a = arguments(bytes.Clone(raw))
		return nil
	}
	var text string
	err := json.Unmarshal(raw, &text)
	*a = arguments(text)
	return err
}
