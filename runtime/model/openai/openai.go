// Package openai calls models through the OpenAI Chat Completions API, at OpenAI or at one of the
// many servers that speak the same format.
//
//	client, err := openai.New(openai.Config{BaseURL: "http://localhost:8000/v1"})
//	...
//	for part, err := range client.Stream(ctx, &model.Request{
//		Model:    "qwen3",
//		Messages: []model.Message{model.UserText("Good morning.")},
//	}) {
//		...
//	}
//
// Every answer is streamed. Where servers differ the adapter takes what comes: reasoning under
// either of its two names, tool calls without an index or an id, a whole input at once, a stream
// that ends without [DONE].
//
// The format has no place for some of what a conversation may hold. Thinking is not given back, a
// tool result that is an error says so in its text, and ThinkingBudget is not sent.
//
// Failures are [*model.Error] values. Nothing is retried, no redirect is followed, and nothing is
// read from the environment.
package openai

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
)

const defaultBaseURL = "https://api.openai.com/v1"

// Config is what a [Client] is made of. Its zero value lacks nothing but the key.
type Config struct {
	// BaseURL is the address before /chat/completions, which mostly ends in /v1. Defaults to
	// https://api.openai.com/v1.
	BaseURL string

	// APIKey may be empty at a BaseURL of one's own alone.
	APIKey string

	// AuthStyle says how the key is sent: "bearer" as Authorization, "api_key" as x-api-key,
	// "none" not at all. Defaults to "bearer".
	AuthStyle string

	// MaxOutputTokens holds for requests that name no limit. Defaults to none: the server's own.
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
	vendor          bool // OpenAI itself, or its models at Azure
}

var _ model.Model = (*Client)(nil)

// New checks cfg. It connects to nothing.
func New(cfg Config) (*Client, error) {
	if cfg.MaxOutputTokens < 0 {
		return nil, fmt.Errorf("openai: negative limit of output tokens")
	}
	base := cmp.Or(strings.TrimRight(cfg.BaseURL, "/"), defaultBaseURL)
	up, err := upstream.New(upstream.Config{
		Name:       "openai",
		BaseURL:    base,
		Path:       "chat/completions",
		KeyNeeded:  base == defaultBaseURL,
		APIKey:     cfg.APIKey,
		AuthStyle:  cmp.Or(cfg.AuthStyle, upstream.AuthBearer),
		HTTPClient: cfg.HTTPClient,
	})
	if err != nil {
		return nil, err
	}
	return &Client{upstream: up, maxOutputTokens: cfg.MaxOutputTokens, vendor: isVendor(base)}, nil
}

func isVendor(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	return host == "api.openai.com" || strings.HasSuffix(host, ".api.openai.com") || strings.HasSuffix(host, ".openai.azure.com")
}

// Stream implements [model.Model].
//
// The limit of output tokens goes by two names. max_completion_tokens is sent to OpenAI and Azure,
// and elsewhere for models named o<digit>... or gpt-5 and above, which refuse the older name;
// everyone else gets max_tokens, for not all servers know the newer one.
func (c *Client) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		body, err := c.tools.Encode(c.settings(req), req.Tools, tools, &conversation{messages(req)})
		if err != nil {
			yield(model.Part{}, fmt.Errorf("openai: %w", err))
			return
		}
		c.upstream.Stream(ctx, body, req.Alive, &decoder{}, yield)
	}
}

// CloseIdleConnections closes connections that are kept open for further calls. It does nothing
// where Config named an HTTPClient.
func (c *Client) CloseIdleConnections() { c.upstream.CloseIdleConnections() }
