package compare_test

import (
	"context"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/seed93082962/agenthost/runtime/model/anthropic"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

const anthropicPath = "/v1/messages"

func BenchmarkAnthropicCall(b *testing.B) {
	measure(b, modeltest.Anthropic, []client{
		{"agenthost", func(base string) (caller, error) {
			c, err := anthropic.New(anthropic.Config{BaseURL: base, APIKey: "key", HTTPClient: httpClient()})
			return agenthost(c), err
		}},
		{"anthropic-sdk", func(base string) (caller, error) { return anthropicSDK(base, plainText), nil }},
		{"anthropic-sdk-asany", func(base string) (caller, error) { return anthropicSDK(base, asAnyText), nil }},
		{"encoding-json", func(base string) (caller, error) {
			type event struct {
				Delta struct {
					Text string `json:"text"`
				} `json:"delta"`
			}
			return post(base+anthropicPath, decodeTexts(func(e *event) string { return e.Delta.Text }))
		}},
		{"bytes-alone", func(base string) (caller, error) {
			return post(base+anthropicPath, countTexts(`"type":"text_delta"`))
		}},
	})
}

// anthropicSDK disables everything optional: the environment, retries, traces.
func anthropicSDK(base string, text func(*sdk.MessageStreamEventUnion) string) caller {
	c := sdk.NewClient(option.WithoutEnvironmentDefaults(), option.WithoutOpenTelemetry(), option.WithMaxRetries(0),
		option.WithBaseURL(base), option.WithAPIKey("key"), option.WithHTTPClient(httpClient()))
	return func(ctx context.Context) (n int, err error) {
		stream := c.Messages.NewStreaming(ctx, sdk.MessageNewParams{
			Model: "m", MaxTokens: 1024,
			Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock(prompt))},
		})
		defer stream.Close()
		for stream.Next() {
			event := stream.Current()
			if text(&event) != "" {
				n++
			}
		}
		return n, stream.Err()
	}
}

// plainText reads the fields of the union, which has no further cost.
func plainText(e *sdk.MessageStreamEventUnion) string {
	if e.Type == "content_block_delta" && e.Delta.Type == "text_delta" {
		return e.Delta.Text
	}
	return ""
}

// asAnyText switches on types, like the README of the SDK.
func asAnyText(e *sdk.MessageStreamEventUnion) string {
	if event, ok := e.AsAny().(sdk.ContentBlockDeltaEvent); ok {
		if delta, ok := event.Delta.AsAny().(sdk.TextDelta); ok {
			return delta.Text
		}
	}
	return ""
}
