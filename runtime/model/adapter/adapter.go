// Package adapter opens the built-in model of a provider: the adapter of its protocol, with the
// address, the key, and the further headers and body fields of its requests.
//
//	m, err := adapter.New(agent.Provider{Protocol: agent.ProtocolDemo}, nil)
//
// A runtime uses it to call the model, and a program that stores providers to check one before.
package adapter

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
	"github.com/seed93082962/agenthost/runtime/model/demo"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

// demoDelay is the time between two tokens of the demo model.
const demoDelay = 15 * time.Millisecond

// New returns the model of a provider. It does not connect. It fails for an unknown protocol, for
// an address, a header or a body field that the adapter cannot send, and without a key for the
// vendor's own address. The error contains no secret. client sends the requests; nil means a
// client of its own.
func New(p agent.Provider, client *http.Client) (model.Model, error) {
	key, base := string(p.APIKey), string(p.BaseURL)
	keyed := p.Protocol == agent.ProtocolAnthropic || p.Protocol == agent.ProtocolOpenAI
	if keyed && p.AuthStyle != agentvalue.AuthNone && key == "" {
		if base == "" {
			return nil, errors.New("the provider has no API key: set its apiKey")
		}

		p.AuthStyle = agentvalue.AuthNone // a private upstream may need none
	}

	header := make(map[string]string, len(p.Headers))
	for name, value := range p.Headers {
		header[name] = string(value)
	}

	var body map[string]json.RawMessage
	for name, value := range p.Body {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode the provider's body field %s: %w", name, err)
		}

		if body == nil {
			body = map[string]json.RawMessage{}
		}

		body[name] = raw
	}

	switch p.Protocol {
	case agent.ProtocolDemo:
		return demo.New(demoDelay), nil
	case agent.ProtocolAnthropic:
		return anthropic.New(anthropic.Config{
			BaseURL: base, APIKey: key, AuthStyle: p.AuthStyle, KeyHeader: p.APIKeyHeader,
			Header: header, Body: body, HTTPClient: client,
		})
	case agent.ProtocolOpenAI:
		return openai.New(openai.Config{
			BaseURL: base, APIKey: key, AuthStyle: p.AuthStyle, KeyHeader: p.APIKeyHeader,
			Header: header, Body: body, HTTPClient: client,
			NoStreamUsage: p.StreamUsage != nil && !*p.StreamUsage,
		})
	}

	return nil, fmt.Errorf("the provider's protocol %q is unknown", p.Protocol)
}
