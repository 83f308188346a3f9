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
// Every response is streamed. The adapter accepts the deviations of compatible servers: reasoning
// under either of its names, tool calls without an index or an id, a complete input in one
// fragment, a stream without a finish reason or [DONE].
//
// Thinking is sent back in the field that carried it, except to OpenAI, which has no such field.
// DeepSeek and Kimi receive reasoning_content with every assistant message, because they reject
// messages without it. Fields of tool calls that the adapter does not know are sent back unchanged,
// except to OpenAI. The text of a tool result that is an error states that it is one. Images of
// tool results are in a message of the user that follows the results. Of [model.Thinking] only
// Effort is sent, as reasoning_effort.
//
// The schema of an output is sent as response_format json_schema, strict if OpenAI would enforce
// it.
//
// Input schemas of tools are converted where the API would reject them, and the inputs of calls are
// mapped back: package internal/toolschema has the rules.
//
// The memory of one response is bounded by the limits of [response.Collector], and that of one
// event by 8 MiB. Time is bounded by the caller's context.
//
// Failures are [*model.Error] values. Nothing is retried, no redirect is followed, and nothing is
// read from the environment.
package openai

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

const defaultBaseURL = "https://api.openai.com/v1"

// Config is the configuration of [New]. Only APIKey is required.
type Config struct {
	// BaseURL is the URL to which /chat/completions is appended. It usually ends in /v1. Defaults
	// to https://api.openai.com/v1.
	BaseURL string

	// APIKey is required unless BaseURL is set.
	APIKey string

	// AuthStyle selects how the key is sent: "bearer" in Authorization, "api_key" in KeyHeader,
	// "none" not at all. Defaults to "bearer".
	AuthStyle string

	// KeyHeader is the header of AuthStyle "api_key": "api-key" for Azure. Defaults to x-api-key.
	KeyHeader string

	// Header contains additional headers. Their values are secret and do not appear in errors.
	Header map[string]string

	// Body contains additional fields of the request. They replace the adapter's fields of the same
	// name; null removes a field. The fields model, messages, tools and stream cannot be set.
	Body map[string]json.RawMessage

	// NoStreamUsage omits stream_options, for servers that reject it. The usage of a response is
	// then unknown unless the server always sends it.
	NoStreamUsage bool

	// HTTPClient sends the requests. Its CheckRedirect is not used, and its Timeout, if set, ends
	// long responses. Defaults to a client without a proxy whose only timeout is that for
	// connecting.
	HTTPClient *http.Client
}

// client is a [model.Model]. It is safe for concurrent use.
type client struct {
	upstream      *upstream.Client
	noStreamUsage bool
	vendor        bool // OpenAI itself, or its models at Azure
	maxTools      int  // of the server for any model, 0 for no limit
	thinks        bool // DeepSeek or Kimi itself
}

var (
	_ model.Model       = (*client)(nil)
	_ model.ToolLimiter = (*client)(nil)
)

// New checks cfg. It does not connect.
func New(cfg Config) (model.Model, error) {
	base := cmp.Or(strings.TrimRight(cfg.BaseURL, "/"), defaultBaseURL)
	vendor := upstream.HasDomain(base, "api.openai.com", "openai.azure.com", "cognitiveservices.azure.com")
	style := upstream.AuthBearer
	if cfg.KeyHeader != "" {
		style = upstream.AuthAPIKey
	}

	up, err := upstream.New(upstream.Config{
		Name:       "openai",
		BaseURL:    base,
		Path:       "chat/completions",
		KeyNeeded:  base == defaultBaseURL,
		APIKey:     cfg.APIKey,
		AuthStyle:  cmp.Or(cfg.AuthStyle, style),
		KeyHeader:  cfg.KeyHeader,
		Custom:     cfg.Header,
		Body:       cfg.Body,
		Fixed:      []string{"model", "messages", "tools", "stream"},
		Tools:      func(offered []model.Tool) any { return toolList(offered, vendor) },
		HTTPClient: cfg.HTTPClient,
	})
	if err != nil {
		return nil, err
	}

	return &client{
		upstream:      up,
		noStreamUsage: cfg.NoStreamUsage,
		vendor:        vendor,
		maxTools:      maxTools(base),
		thinks:        upstream.RequiresThinking(base),
	}, nil
}

// Stream implements [model.Model].
//
// The limit of output tokens has two names. max_completion_tokens is sent to OpenAI and Azure, and
// elsewhere for models named o<digit>... or gpt-5 and above, which reject the older name. Other
// servers receive max_tokens, because not all of them know the newer name.
func (c *client) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		c.upstream.Stream(ctx, req, c.request(req), &decoder{calls: calls{ids: upstream.NewCallIDs(req)}, name: upstream.Name{Named: req.Named}}, yield)
	}
}

// maxTools returns the number of tools that a server accepts for any model, 0 for an unknown
// server.
func maxTools(base string) int {
	for domain, limit := range map[string]int{"api.groq.com": 128, "api.x.ai": 200, "generativelanguage.googleapis.com": 512} {
		if upstream.HasDomain(base, domain) {
			return limit
		}
	}

	return 0
}

// MaxTools implements [model.ToolLimiter]. OpenAI and Azure accept 128 tools. A gateway to them has
// the same limit for their models, which are recognized by their names, with or without the vendor
// as a prefix. Groq accepts 128, xAI 200 and Gemini 512. Other servers have no known limit.
func (c *client) MaxTools(name string) int {
	name = strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
	proprietary := strings.HasPrefix(name, "gpt-") && !strings.HasPrefix(name, "gpt-oss") || strings.HasPrefix(name, "chatgpt-")
	if c.vendor || c.maxTools == 0 && (proprietary || reasons(name)) {
		return 128
	}

	return c.maxTools
}

// NativeOutput reports whether a response can have a schema. OpenAI and Azure accept every schema,
// also next to tools. Of other servers, some reject a schema next to tools, and some call no tools
// then. A server without schemas rejects the request.
func (c *client) NativeOutput(_ json.RawMessage, tools bool) bool { return c.vendor || !tools }

// CloseIdleConnections closes the idle connections. It does nothing if Config.HTTPClient was set.
func (c *client) CloseIdleConnections() { c.upstream.CloseIdleConnections() }
