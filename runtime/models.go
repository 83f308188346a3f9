package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
	"github.com/seed93082962/agenthost/runtime/model/demo"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

// model returns the model of a provider: the result of NewModel, or else a built-in adapter.
func (rt *Runtime) model(p agent.Provider) (model.Model, error) {
	if rt.cfg.NewModel != nil {
		if m, err := rt.cfg.NewModel(p); m != nil || err != nil {
			return m, err
		}
	}
	key, base := string(p.APIKey), string(p.BaseURL)
	if p.Protocol != agent.ProtocolDemo && p.AuthStyle != agent.AuthNone && key == "" {
		if base == "" {
			return nil, errors.New("the provider has no API key")
		}
		p.AuthStyle = agent.AuthNone // a private upstream may need none
	}
	header := make(map[string]string, len(p.Headers))
	for name, value := range p.Headers {
		header[name] = string(value)
	}
	body, err := bodyFields(p.Body)
	if err != nil {
		return nil, err
	}
	switch p.Protocol {
	case agent.ProtocolDemo:
		return demo.New(demo.Config{}), nil
	case agent.ProtocolAnthropic:
		return anthropic.New(anthropic.Config{
			BaseURL: base, APIKey: key, AuthStyle: p.AuthStyle, KeyHeader: p.APIKeyHeader,
			Header: header, Body: body, HTTPClient: rt.client,
		})
	case agent.ProtocolOpenAI:
		return openai.New(openai.Config{
			BaseURL: base, APIKey: key, AuthStyle: p.AuthStyle, KeyHeader: p.APIKeyHeader,
			Header: header, Body: body, HTTPClient: rt.client,
			NoStreamUsage: p.StreamUsage != nil && !*p.StreamUsage,
		})
	}
	return nil, fmt.Errorf("the provider's protocol %q is unknown", p.Protocol)
}

// origin identifies a model of a provider in the messages of a session. Of the address it has only
// the host: a path or a query may contain a secret.
func origin(p agent.Provider, name string) string {
	host := ""
	if u, err := url.Parse(string(p.BaseURL)); err == nil {
		host = u.Hostname()
	}
	return strings.Join([]string{p.Protocol, host, name}, " ")
}

// bodyFields encodes the further fields of a provider's requests.
func bodyFields(fields map[string]any) (map[string]json.RawMessage, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	body := make(map[string]json.RawMessage, len(fields))
	for name, value := range fields {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode the provider's body field %s: %w", name, err)
		}
		body[name] = raw
	}
	return body, nil
}
