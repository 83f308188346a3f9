package runtime_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

func TestProviderOptionsReachUpstream(t *testing.T) {
	no := false
	for name, row := range map[string]struct {
		protocol modeltest.Protocol
		provider agent.Provider
		header   map[string]string
		body     map[string]any
	}{
		"headers": {modeltest.OpenAI,
			agent.Provider{Headers: map[string]agent.Secret{"x-portkey-provider": "openai", "User-Agent": "mine"}},
			map[string]string{"X-Portkey-Provider": "openai", "User-Agent": "mine"}, nil},
		"headers of anthropic": {modeltest.Anthropic,
			agent.Provider{Headers: map[string]agent.Secret{"anthropic-beta": "context-1m"}},
			map[string]string{"Anthropic-Beta": "context-1m", "Anthropic-Version": "2023-06-01"}, nil},
		"header of the key": {modeltest.OpenAI,
			agent.Provider{APIKey: "azure-key", AuthStyle: agentvalue.AuthAPIKey, APIKeyHeader: "api-key"},
			map[string]string{"Api-Key": "azure-key", "Authorization": "", "X-Api-Key": ""}, nil},
		"header of the key alone selects the style": {modeltest.OpenAI,
			agent.Provider{APIKey: "azure-key", APIKeyHeader: "api-key"},
			map[string]string{"Api-Key": "azure-key", "Authorization": ""}, nil},
		"body": {modeltest.OpenAI,
			agent.Provider{Body: map[string]any{"top_p": 0.5, "temperature": nil, "extra": map[string]any{"a": []any{true}}}},
			nil, map[string]any{"top_p": 0.5, "temperature": nil, "extra": map[string]any{"a": []any{true}}, "stream": true}},
		"body of anthropic": {modeltest.Anthropic,
			agent.Provider{Body: map[string]any{"top_k": 5}}, nil, map[string]any{"top_k": 5.0}},
		"usage is asked for": {modeltest.OpenAI, agent.Provider{}, nil,
			map[string]any{"stream_options": map[string]any{"include_usage": true}}},
		"no stream usage": {modeltest.OpenAI, agent.Provider{StreamUsage: &no}, nil, map[string]any{"stream_options": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, row.protocol, modeltest.Stream(modeltest.Text("Hi.")))
			warm := 0.5
			b := serve(t, up, func(c *runtime.Config) {
				p := row.provider
				p.Protocol, p.BaseURL = string(row.protocol), agent.Secret(up.URL)
				c.Agents = []agent.Agent{{ID: "helper", Model: "m", Provider: p, Temperature: &warm}}
			})
			res, _ := b.blocking(t, `{"message":"hello"}`)
			require.Equal(t, http.StatusOK, res.status, res.body)
			req := up.Requests()[0]
			for name, want := range row.header {
				require.Equal(t, want, req.Header.Get(name), name)
			}
			var body map[string]any
			require.NoError(t, json.Unmarshal(req.Body, &body))
			for field, want := range row.body {
				if want == nil {
					require.NotContains(t, body, field)
					continue
				}
				require.Equal(t, want, body[field], field)
			}
		})
	}
}

// An option that would break the request makes the agent unavailable.
func TestProviderOptionsThatBreakARequest(t *testing.T) {
	for name, p := range map[string]agent.Provider{
		"framing":       {Headers: map[string]agent.Secret{"content-length": "1"}},
		"encoding":      {Headers: map[string]agent.Secret{"Accept-Encoding": "gzip"}},
		"host":          {Headers: map[string]agent.Secret{"Host": "x"}},
		"header name":   {Headers: map[string]agent.Secret{"a b": "x"}},
		"header value":  {Headers: map[string]agent.Secret{"X-A": "a\nb"}},
		"key header":    {APIKey: "key", AuthStyle: agentvalue.AuthAPIKey, APIKeyHeader: "a b"},
		"messages":      {Body: map[string]any{"messages": []any{}}},
		"stream":        {Body: map[string]any{"stream": false}},
		"tools, a null": {Body: map[string]any{"tools": nil}},
	} {
		for _, protocol := range []string{agent.ProtocolOpenAI, agent.ProtocolAnthropic} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				b := serve(t, nil, func(c *runtime.Config) {
					p := p
					p.Protocol, p.BaseURL = protocol, "http://127.0.0.1:1"
					c.Agents = []agent.Agent{{ID: "helper", Model: "m", Provider: p}}
				})
				res, _ := b.blocking(t, `{"message":"hello"}`)
				require.Equal(t, http.StatusServiceUnavailable, res.status, res.body)
			})
		}
	}
}

// Values of custom headers are secret: an upstream that repeats them does not make them part of an
// error.
func TestHeaderValuesAreRedacted(t *testing.T) {
	up := modeltest.Start(t, modeltest.OpenAI,
		modeltest.Raw(http.StatusForbidden, "application/json", `{"error":{"message":"no access for portkey-7731 here"}}`))
	b := serve(t, up, func(c *runtime.Config) {
		c.Agents = []agent.Agent{{ID: "helper", Model: "m", Provider: agent.Provider{
			Protocol: agent.ProtocolOpenAI, BaseURL: agent.Secret(up.URL),
			Headers: map[string]agent.Secret{"X-Gateway": "portkey-7731"},
		}}}
	})
	res, _ := b.blocking(t, `{"message":"hello"}`)
	require.Equal(t, http.StatusBadGateway, res.status)
	require.Contains(t, res.body, "no access for [redacted] here")
	require.NotContains(t, res.body, "portkey-7731")
}
