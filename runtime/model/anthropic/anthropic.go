// Package anthropic calls models through the Anthropic Messages API (version 2023-06-01), at
// Anthropic or at any server that speaks the same format.
//
//	client, err := anthropic.New(anthropic.Config{APIKey: key})
//	...
//	for part, err := range client.Stream(ctx, &model.Request{
//		Model:    "claude-sonnet-4-5",
//		Messages: []model.Message{model.UserText("Good morning.")},
//	}) {
//		...
//	}
//
// Every answer is streamed. The ends of the tools, of the system prompt and of the conversation
// are marked for the prompt cache, so that the next call of the same conversation reads what it
// has in common with this one from there. Thinking is given back upstream where it carries a
// signature; text that is white space alone is left out, for the API refuses it.
//
// Failures are [*model.Error] values. Nothing is retried, no redirect is followed, and nothing is
// read from the environment.
package anthropic

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
)

const (
	defaultBaseURL         = "https://api.anthropic.com"
	defaultMaxOutputTokens = 8192
)

// Config is what a [Client] is made of. Its zero value lacks nothing but the key.
type Config struct {
	// BaseURL is the address before /v1/messages. Defaults to https://api.anthropic.com.
	BaseURL string

	// APIKey may be empty at a BaseURL of one's own alone.
	APIKey string

	// AuthStyle says how the key is sent: "api_key" as x-api-key, "bearer" as Authorization,
	// "none" not at all. Defaults to "api_key".
	AuthStyle string

	// MaxOutputTokens holds for requests that name no limit; the API asks for one. Defaults to 8192.
	MaxOutputTokens int

	// HTTPClient sends the requests; its CheckRedirect is not used, and its Timeout, if any, cuts
	// off long answers. Defaults to one with connections of its own, no proxy and no time limit
	// but those of connecting.
	HTTPClient *http.Client
}

// Client is a [model.Model]. It is safe for concurrent use.
type Client struct {
	upstream        *upstream.Client
	tools           upstream.Tools
	maxOutputTokens int
}

var _ model.Model = (*Client)(nil)

// New checks cfg. It connects to nothing.
func New(cfg Config) (*Client, error) {
	if cfg.MaxOutputTokens < 0 {
		return nil, fmt.Errorf("anthropic: negative limit of output tokens")
	}
	base := cmp.Or(strings.TrimRight(cfg.BaseURL, "/"), defaultBaseURL)
	up, err := upstream.New(upstream.Config{
		Name:       "anthropic",
		BaseURL:    base,
		Path:       "v1/messages",
		KeyNeeded:  base == defaultBaseURL,
		APIKey:     cfg.APIKey,
		AuthStyle:  cmp.Or(cfg.AuthStyle, upstream.AuthAPIKey),
		Header:     http.Header{"Anthropic-Version": {"2023-06-01"}},
		HTTPClient: cfg.HTTPClient,
	})
	if err != nil {
		return nil, err
	}
	return &Client{upstream: up, maxOutputTokens: cmp.Or(cfg.MaxOutputTokens, defaultMaxOutputTokens)}, nil
}

// Stream implements [model.Model].
//
// The API's max_tokens counts thinking in: where req's limit does not exceed its ThinkingBudget,
// the two are added. Temperature is left out beside a ThinkingBudget, as the API has it.
func (c *Client) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		body, err := c.tools.Encode(c.settings(req), req.Tools, tools, newConversation(req))
		if err != nil {
			yield(model.Part{}, fmt.Errorf("anthropic: %w", err))
			return
		}
		c.upstream.Stream(ctx, body, req.Alive, &decoder{}, yield)
	}
}

// CloseIdleConnections closes connections that are kept open for further calls. It does nothing
// where Config named an HTTPClient.
func (c *Client) CloseIdleConnections() { c.upstream.CloseIdleConnections() }
