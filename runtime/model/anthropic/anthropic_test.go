package anthropic_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-ant-api03-0123456789"

func client(tb testing.TB, cfg anthropic.Config) model.Model {
	tb.Helper()
	if cfg.APIKey == "" {
		cfg.APIKey = key
	}
	c, err := anthropic.New(cfg)
	require.NoError(tb, err)
	tb.Cleanup(c.(interface{ CloseIdleConnections() }).CloseIdleConnections)
	return c
}

func hello() *model.Request {
	return &model.Request{Model: "claude-sonnet-4-5", Messages: []model.Message{model.UserText("Hello.")}}
}

// upstreamFunc is an upstream in memory.
type upstreamFunc func(*http.Request) (*http.Response, error)

func (f upstreamFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func inMemory(tb testing.TB, body func() io.Reader) model.Model {
	return client(tb, anthropic.Config{HTTPClient: &http.Client{
		Transport: upstreamFunc(func(r *http.Request) (*http.Response, error) {
			_ = r.Body.Close()
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
				Body: io.NopCloser(body())}, nil
		}),
	}})
}

// collect reads a stream of these bytes.
func collected(tb testing.TB, raw string) (collect.Response, error) {
	c := inMemory(tb, func() io.Reader { return bytes.NewReader([]byte(raw)) })
	return new(collect.Collector).Collect(c.Stream(tb.Context(), hello()))
}

func TestHeadersAndAddress(t *testing.T) {
	for name, row := range map[string]struct {
		cfg     anthropic.Config
		address string
		header  map[string]string
	}{
		"defaults": {
			anthropic.Config{}, "https://api.anthropic.com/v1/messages",
			map[string]string{"X-Api-Key": key, "Authorization": "", "Anthropic-Version": "2023-06-01",
				"Content-Type": "application/json"},
		},
		"trailing slash": {
			anthropic.Config{BaseURL: "https://gateway.example.com/"}, "https://gateway.example.com/v1/messages",
			map[string]string{"X-Api-Key": key},
		},
		"path, bearer": {
			anthropic.Config{BaseURL: "http://gateway.example.com:81/anthropic", AuthStyle: "bearer"},
			"http://gateway.example.com:81/anthropic/v1/messages",
			map[string]string{"X-Api-Key": "", "Authorization": "Bearer " + key},
		},
		"none": {
			anthropic.Config{AuthStyle: "none"}, "https://api.anthropic.com/v1/messages",
			map[string]string{"X-Api-Key": "", "Authorization": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got *http.Request
			row.cfg.HTTPClient = &http.Client{Transport: upstreamFunc(func(r *http.Request) (*http.Response, error) {
				got = r
				return nil, errors.New("no network here")
			})}
			_, err := new(collect.Collector).Collect(client(t, row.cfg).Stream(t.Context(), hello()))
			require.Error(t, err)
			require.Equal(t, row.address, got.URL.String())
			for name, want := range row.header {
				require.Equal(t, want, got.Header.Get(name), name)
			}
		})
	}
}

func TestNewRejects(t *testing.T) {
	for name, cfg := range map[string]anthropic.Config{
		"no key for the vendor": {},
		"bad address":           {APIKey: key, BaseURL: "api.anthropic.com"},
		"unknown auth style":    {APIKey: key, AuthStyle: "basic"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := anthropic.New(cfg)
			require.ErrorContains(t, err, "anthropic: ")
		})
	}
	_, err := anthropic.New(anthropic.Config{BaseURL: "http://localhost:8080"})
	require.NoError(t, err, "a server of one's own may need no key")
}

func TestConversation(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(
			modeltest.Thinking("I need ", "the file."), modeltest.Signature("sig", "nature"), modeltest.Redacted("opaque"),
			modeltest.Text("Let me ", "look."), modeltest.Ping(),
			modeltest.ToolCall("toolu_1", "Read", `{"file_path":`, ` "a.txt"}`), modeltest.ToolCall("toolu_2", "Now"),
			modeltest.Usage(model.Usage{InputTokens: 3, OutputTokens: 9, CacheCreationInputTokens: 4, CacheReadInputTokens: 5}),
		),
		modeltest.Stream(modeltest.Text("It says hello."), modeltest.Stop(model.StopMaxTokens)),
	)
	c := client(t, anthropic.Config{BaseURL: up.URL})
	req := hello()
	req.Tools = []model.Tool{{Name: "Read"}, {Name: "Now"}}

	first, err := new(collect.Collector).Collect(c.Stream(t.Context(), req))
	require.NoError(t, err)
	require.Equal(t, collect.Response{
		Message: model.Message{Role: model.RoleAssistant, Content: []model.Block{
			{Type: model.BlockThinking, Text: "I need the file.", Signature: "signature"},
			{Type: model.BlockRedacted, Data: "opaque"},
			{Type: model.BlockText, Text: "Let me look."},
			{Type: model.BlockToolUse, ID: "toolu_1", Name: "Read", Input: []byte(`{"file_path":"a.txt"}`)},
			{Type: model.BlockToolUse, ID: "toolu_2", Name: "Now", Input: []byte(`{}`)},
		}},
		Usage:      model.Usage{InputTokens: 3, OutputTokens: 9, CacheCreationInputTokens: 4, CacheReadInputTokens: 5},
		StopReason: model.StopToolUse,
	}, first)

	// modeltest rejects the requests that the API rejects, such as modified thinking.
	req.Messages = append(req.Messages, first.Message, model.Message{Role: model.RoleUser, Content: []model.Block{
		{Type: model.BlockToolResult, ID: "toolu_1", Text: "hello"},
		{Type: model.BlockToolResult, ID: "toolu_2", IsError: true},
		{Type: model.BlockText, Text: "Go on."},
	}})
	second, err := new(collect.Collector).Collect(c.Stream(t.Context(), req))
	require.NoError(t, err)
	require.Equal(t, "It says hello.", second.Message.Text())
	require.Equal(t, model.StopMaxTokens, second.StopReason)
}

func TestUpstreamFailures(t *testing.T) {
	for name, row := range map[string]struct {
		reply modeltest.Reply
		code  model.Code
	}{
		"rate limit":            {modeltest.Status(429, "Retry-After", "7"), model.Code(runvalue.ErrorTypeRateLimit)},
		"overloaded":            {modeltest.Status(529), model.Code(runvalue.ErrorTypeOverloaded)},
		"bad key":               {modeltest.Status(401), model.Code(runvalue.ErrorTypeAuth)},
		"prompt too long":       {modeltest.PromptTooLong(), model.Code(runvalue.ErrorTypePromptTooLong)},
		"proxy's page":          {modeltest.Raw(200, "text/html", "<p>hello"), model.Code(runvalue.ErrorTypeServer)},
		"dropped":               {modeltest.Stream(modeltest.Text("a"), modeltest.Drop()), model.Code(runvalue.ErrorTypeConnection)},
		"ended too early":       {modeltest.Stream(modeltest.Text("a"), modeltest.Cut()), model.Code(runvalue.ErrorTypeConnection)},
		"overloaded, half way":  {modeltest.Stream(modeltest.Text("a"), modeltest.Error("overloaded_error")), model.Code(runvalue.ErrorTypeOverloaded)},
		"server error half way": {modeltest.Stream(modeltest.Text("a"), modeltest.Error("api_error")), model.Code(runvalue.ErrorTypeServer)},
		"damaged event": {modeltest.Stream(modeltest.Verbatim("event: content_block_delta\ndata: {\"ty\n\n")),
			model.Code(runvalue.ErrorTypeServer)},
		"nameless event": {modeltest.Stream(modeltest.Verbatim("data: hello\n\n")), model.Code(runvalue.ErrorTypeServer)},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, row.reply)
			_, err := new(collect.Collector).Collect(client(t, anthropic.Config{BaseURL: up.URL}).Stream(t.Context(), hello()))
			var coded *model.Error
			require.ErrorAs(t, err, &coded)
			require.Equal(t, row.code, coded.Code, coded.Message)
		})
	}
}

func TestCancelReachesUpstream(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("a"), modeltest.Hang()))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stop := errors.New("stop")
	var got error
	for p, err := range client(t, anthropic.Config{BaseURL: up.URL}).Stream(ctx, hello()) {
		got = err
		if p.Kind == model.KindText {
			cancel(stop)
		}
	}
	require.Equal(t, stop, got)
	_, early := up.Await(t, 1).End()
	require.True(t, early)
}

func TestBadInputIsNotSent(t *testing.T) {
	req := hello()
	nan := math.NaN()
	req.Temperature = &nan
	_, err := new(collect.Collector).Collect(client(t, anthropic.Config{}).Stream(t.Context(), req))
	require.ErrorContains(t, err, "anthropic: encode model request")
}
