package provider

import (
	"slices"
	"strings"
)

// Ids of the built-in providers.
const (
	Anthropic = "anthropic"
	OpenAI    = "openai"
	Demo      = "demo"
)

// Vendors' base URLs, which are the defaults of their protocols.
const (
	anthropicURL = "https://api.anthropic.com"
	openAIURL    = "https://api.openai.com/v1"
)

// builtins returns the providers that every tenant has. Their models are suggestions: an agent may
// use any other.
func builtins() []provider {
	return []provider{
		{
			ID: Anthropic, Name: "Anthropic", Protocol: ProtocolAnthropic, AuthStyle: AuthAPIKey, BaseURL: anthropicURL, Enabled: true, Version: 1,
			Models: []Model{
				{ID: "claude-sonnet-4-5", DisplayName: "Claude Sonnet 4.5", ContextWindow: 200_000, MaxOutput: 64_000},
				{ID: "claude-haiku-4-5", DisplayName: "Claude Haiku 4.5", ContextWindow: 200_000, MaxOutput: 64_000},
				{ID: "claude-opus-4-1", DisplayName: "Claude Opus 4.1", ContextWindow: 200_000, MaxOutput: 32_000},
			},
		},
		{
			ID: OpenAI, Name: "OpenAI", Protocol: ProtocolOpenAI, AuthStyle: AuthBearer, BaseURL: openAIURL, Enabled: true, Version: 1,
			Models: []Model{
				{ID: "gpt-5", DisplayName: "GPT-5", ContextWindow: 400_000, MaxOutput: 128_000},
				{ID: "gpt-5-mini", DisplayName: "GPT-5 mini", ContextWindow: 400_000, MaxOutput: 128_000},
				{ID: "gpt-4.1", DisplayName: "GPT-4.1", ContextWindow: 1_047_576, MaxOutput: 32_768},
			},
		},
		{
			ID: Demo, Name: "Demo", Protocol: ProtocolDemo, AuthStyle: AuthNone, Enabled: true, Version: 1,
			Models: []Model{{ID: "demo", DisplayName: "Demo"}},
		},
	}
}

// builtin returns the built-in provider with the id.
func builtin(id string) (provider, bool) {
	all := builtins()
	if i := slices.IndexFunc(all, func(p provider) bool { return p.ID == id }); i >= 0 {
		return all[i], true
	}
	return provider{}, false
}

// matchingBuiltins returns the built-in providers whose name contains the folded text.
func matchingBuiltins(text string) []provider {
	return slices.DeleteFunc(builtins(), func(p provider) bool { return !strings.Contains(fold(p.Name), text) })
}
