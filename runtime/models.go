package runtime

import (
	"errors"
	"fmt"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
	"github.com/seed93082962/agenthost/runtime/model/demo"
	"github.com/seed93082962/agenthost/runtime/model/openai"
)

// model makes the model of a provider: the embedder's, else a built-in adapter.
func (rt *Runtime) model(p agent.Provider) (model.Model, error) {
	if rt.cfg.Models != nil {
		if m, err := rt.cfg.Models(p); m != nil || err != nil {
			return m, err
		}
	}
	key, base := string(p.APIKey), string(p.BaseURL)
	if p.Protocol != agent.ProtocolDemo && p.AuthStyle != agent.AuthNone && key == "" {
		if base == "" {
			return nil, errors.New("the provider has no API key")
		}
		p.AuthStyle = agent.AuthNone // an upstream of one's own may want none
	}
	switch p.Protocol {
	case agent.ProtocolDemo:
		return demo.New(demo.Config{}), nil
	case agent.ProtocolAnthropic:
		return anthropic.New(anthropic.Config{BaseURL: base, APIKey: key, AuthStyle: p.AuthStyle, HTTPClient: rt.client})
	case agent.ProtocolOpenAI:
		return openai.New(openai.Config{BaseURL: base, APIKey: key, AuthStyle: p.AuthStyle, HTTPClient: rt.client})
	}
	return nil, fmt.Errorf("the provider's protocol %q is unknown", p.Protocol)
}
