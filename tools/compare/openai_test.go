package compare_test

import (
	"context"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

const openaiPath = "/v1/chat/completions"

func BenchmarkOpenAICall(b *testing.B) {
	measure(b, modeltest.OpenAI, []client{
		{"agenthost", func(base string) (caller, error) {
			c, err := openai.New(openai.Config{BaseURL: base + "/v1", APIKey: "key", HTTPClient: httpClient()})
			return agenthost(c), err
		}},
		{"openai-sdk", func(base string) (caller, error) { return openaiSDK(base + "/v1"), nil }},
		{"encoding-json", func(base string) (caller, error) {
			type chunk struct {
				Choices []struct {
					Delta struct {
						Content string `json:"content"`
					} `json:"delta"`
				} `json:"choices"`
			}
			return post(base+openaiPath, decodeTexts(func(c *chunk) string {
				if len(c.Choices) == 0 {
					return ""
				}
				return c.Choices[0].Delta.Content
			}))
		}},
		{"bytes-alone", func(base string) (caller, error) {
			return post(base+openaiPath, countTexts(`"delta":{"content":"`))
		}},
	})
}

// openaiSDK always reads its environment; the options here take precedence.
func openaiSDK(base string) caller {
	c := sdk.NewClient(option.WithMaxRetries(0), option.WithBaseURL(base), option.WithAPIKey("key"),
		option.WithHTTPClient(httpClient()))
	return func(ctx context.Context) (n int, err error) {
		stream := c.Chat.Completions.NewStreaming(ctx, sdk.ChatCompletionNewParams{
			Model: "m", MaxTokens: sdk.Int(1024),
			Messages: []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage(prompt)},
		})
		defer stream.Close()
		for stream.Next() {
			chunk := stream.Current()
			if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
				n++
			}
		}
		return n, stream.Err()
	}
}
