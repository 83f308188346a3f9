package anthropic

import "encoding/json"

// event is every event of the stream in one, save for deltas.
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
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
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
	Text        string `json:"text"`
	Thinking    string `json:"thinking"`
	Signature   string `json:"signature"`
	PartialJSON string `json:"partial_json"`
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
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
}
