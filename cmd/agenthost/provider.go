package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// keyedProvider is a provider whose key the environment may have.
type keyedProvider struct {
	protocol string
	key, url string // names of variables
	name     string // of the provider in the hub
	model    string
}

var keyed = []keyedProvider{
	{"anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "Anthropic of the environment", "claude-sonnet-4-5"},
	{"openai", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OpenAI of the environment", "gpt-5-mini"},
}

// provider returns the id and the default model of the provider of the environment, which it
// creates or changes, or those of the demo model.
func (d *dev) provider(ctx context.Context) (string, string, error) {
	for _, kind := range keyed {
		if key := d.getenv(kind.key); key != "" {
			p, err := d.setProvider(ctx, wire.ProviderRequest{Name: kind.name, ProbeRequest: wire.ProbeRequest{
				Protocol: kind.protocol, BaseURL: d.getenv(kind.url), APIKey: wire.KeyChange{Value: key},
			}})
			return p.ID, kind.model, err
		}
	}

	return agent.ProtocolDemo, agent.ProtocolDemo, nil
}

// providerOf returns the provider of an agent, which it creates or changes. Without a key of its
// own, the agent has that of the environment.
func (d *dev) providerOf(ctx context.Context, a *agent.Agent) (wire.Provider, error) {
	p := a.Provider
	if p.Protocol == agent.ProtocolDemo {
		return wire.Provider{}, nil
	}

	var req wire.ProviderRequest
	if err := convert(p, &req); err != nil {
		return wire.Provider{}, err
	}

	req.Name, req.BaseURL, req.APIKey.Value = "Provider of "+a.ID, string(p.BaseURL), string(p.APIKey)
	req.Headers = plainValues(p.Headers)

	variable := "apiKey of its provider"
	if kind, inherits := d.inherited(p); inherits {
		req.APIKey.Value, req.BaseURL = d.getenv(kind.key), cmp.Or(req.BaseURL, d.getenv(kind.url))
		variable = kind.key
	}

	provider, err := d.setProvider(ctx, req)
	if err == nil && provider.KeyState == "missing" {
		fmt.Fprintf(d.stderr, "agenthost dev: the agent %s has no API key and cannot answer: set %s\n", a.ID, variable)
	}

	return provider, err
}

// inherited returns the provider of the environment whose key a provider without a key has.
func (d *dev) inherited(p agent.Provider) (keyedProvider, bool) {
	i := slices.IndexFunc(keyed, func(kind keyedProvider) bool { return kind.protocol == p.Protocol })
	if i < 0 || p.APIKey != "" || p.AuthStyle == agentvalue.AuthNone {
		return keyedProvider{}, false
	}

	return keyed[i], true
}

// setProvider creates a provider, or changes the one of its name.
func (d *dev) setProvider(ctx context.Context, req wire.ProviderRequest) (wire.Provider, error) {
	for existing, err := range d.client.Providers.List(ctx, req.Name) {
		if err != nil {
			return wire.Provider{}, err
		}

		if existing.Name == req.Name {
			return d.client.Providers.Update(ctx, existing.ID, 0, req)
		}
	}

	return d.client.Providers.Create(ctx, req)
}

// plainValues returns the values of secrets.
func plainValues(secrets map[string]agent.Secret) map[string]string {
	values := map[string]string{}
	for name, value := range secrets {
		values[name] = string(value)
	}

	return values
}
