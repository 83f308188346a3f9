package anthropic

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/runtime/model/internal/jsonscan"
)

// text is a string whose incomplete characters upstream.Joiner completes.
type text = jsonscan.Fragment

// count is a number of tokens.
type count = jsonscan.Count

// event has the fields of all events of the stream.
type event struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Usage usage `json:"usage"`
	} `json:"message"`
	ContentBlock contentBlock    `json:"content_block"`
	Delta        delta           `json:"delta"`
	Usage        usage           `json:"usage"`
	Error        json.RawMessage `json:"error"`
}

type contentBlock struct {
	Type      string          `json:"type"`
	Text      text            `json:"text"`
	Thinking  text            `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

func (b *contentBlock) known() bool {
	switch b.Type {
	case "text", "thinking", "redacted_thinking", "tool_use":
		return true
	}
	return false
}

type delta struct {
	Type        string `json:"type"`
	Text        text   `json:"text"`
	Thinking    text   `json:"thinking"`
	Signature   string `json:"signature"`
	PartialJSON text   `json:"partial_json"`
	StopReason  string `json:"stop_reason"` // of message_delta
}

func (b *delta) known() bool {
	switch b.Type {
	case "text_delta", "thinking_delta", "signature_delta", "input_json_delta":
		return true
	}
	return false
}

type usage struct {
	InputTokens              count `json:"input_tokens"`
	OutputTokens             count `json:"output_tokens"`
	CacheCreationInputTokens count `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     count `json:"cache_read_input_tokens"`
}

// UnmarshalJSON implements json.Unmarshaler. A value of another kind does not fail a run: the
// fields that can be read are set.
func (u *usage) UnmarshalJSON(raw []byte) error {
	type fields usage
	_ = json.Unmarshal(raw, (*fields)(u))
	return nil
}
