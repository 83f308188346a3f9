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
// Every response is streamed. The ends of the tools, of the system prompt and of the conversation
// are marked for the prompt cache, so that the next call of the same conversation reads the common
// prefix from the cache. Thinking with a signature is sent back; thinking without one is sent back
// to servers other than Anthropic's. DeepSeek and Kimi receive thinking with every assistant
// message, because they reject messages without it. Blank text and thinking at the end of a message
// are omitted because the API rejects them.
//
// Input schemas of tools are converted where the API would reject them, and the inputs of calls are
// mapped back: package internal/toolschema has the rules.
//
// The memory of one response is bounded by the limits of [response.Collector], and that of one
// event by 8 MiB. Time is bounded by the caller's context.
//
// Failures are [*model.Error] values. Nothing is retried, no redirect is followed, and nothing is
// read from the environment.
package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
)

const (
	defaultBaseURL = "https://api.anthropic.com"

	// defaultMaxOutputTokens is the limit of requests that set none: the API requires one.
	defaultMaxOutputTokens = 8192
)

// Config is the configuration of [New]. Only APIKey is required.
type Config struct {
	// BaseURL is the URL to which /v1/messages is appended. Defaults to https://api.anthropic.com.
	BaseURL string

	// APIKey is required unless BaseURL is set.
	APIKey string

	// AuthStyle selects how the key is sent: "api_key" in KeyHeader, "bearer" in Authorization,
	// "none" not at all. Defaults to "api_key".
	AuthStyle string

	// KeyHeader is the header of AuthStyle "api_key". Defaults to x-api-key.
	KeyHeader string

	// Header contains additional headers. Their values are secret and do not appear in errors.
	Header map[string]string

	// Body contains additional fields of the request. They replace the adapter's fields of the same
	// name; null removes a field. The fields model, messages, system, tools and stream cannot be
	// set.
	Body map[string]json.RawMessage

	// HTTPClient sends the requests. Its CheckRedirect is not used, and its Timeout, if set, ends
	// long responses. Defaults to a client without a proxy whose only timeout is that for
	// connecting.
	HTTPClient *http.Client
}

// client is a [model.Model]. It is safe for concurrent use.
type client struct {
	upstream *upstream.Client
	vendor   bool // Anthropic itself
	thinks   bool // DeepSeek or Kimi
}

var _ model.Model = (*client)(nil)

// New checks cfg. It does not connect.
func New(cfg Config) (model.Model, error) {
	base := cmp.Or(strings.TrimRight(cfg.BaseURL, "/"), defaultBaseURL)
	up, err := upstream.New(upstream.Config{
		Name:       "anthropic",
		BaseURL:    base,
		Path:       "v1/messages",
		KeyNeeded:  base == defaultBaseURL,
		APIKey:     cfg.APIKey,
		AuthStyle:  cmp.Or(cfg.AuthStyle, upstream.AuthAPIKey),
		KeyHeader:  cfg.KeyHeader,
		Custom:     cfg.Header,
		Header:     http.Header{"Anthropic-Version": {"2023-06-01"}},
		Body:       cfg.Body,
		Fixed:      []string{"model", "messages", "system", "tools", "stream"},
		Tools:      toolList,
		HTTPClient: cfg.HTTPClient,
	})
	if err != nil {
		return nil, err
	}

	return &client{upstream: up, vendor: upstream.HasDomain(base, "anthropic.com"), thinks: upstream.RequiresThinking(base)}, nil
}

// Stream implements [model.Model].
//
// The API's max_tokens includes thinking: if the limit of req does not exceed its thinking budget,
// the two are added. With thinking, temperature is left out, as the API requires. A turn that was
// started without thinking is finished without a thinking budget.
func (c *client) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		c.upstream.Stream(ctx, req, c.request(req), &decoder{ids: upstream.NewCallIDs(req), name: upstream.Name{Named: req.Named}}, yield)
	}
}

// NativeOutput reports whether a response can have a schema, in output_config.format. Anthropic
// accepts a part of JSON Schema there, and rejects it for models before Claude 4.5. Compatible
// servers are not known to have the field.
func (c *client) NativeOutput(schema json.RawMessage, _ bool) bool {
	return c.vendor && formatSubset.Has(schema)
}

// CloseIdleConnections closes the idle connections. It does nothing if Config.HTTPClient was set.
func (c *client) CloseIdleConnections() { c.upstream.CloseIdleConnections() }
