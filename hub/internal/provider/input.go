package provider

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/domain"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/adapter"
)

const (
	maxName    = 128  // characters
	maxURL     = 2048 // bytes
	maxModels  = 200
	maxModelID = 128     // characters
	maxTokens  = 1 << 30 // of a context window

	maxSettings = 64 << 10 // bytes of further headers and body fields, and of the query, as JSON
)

// Input is the request for a provider.
type Input struct {
	wire.ProviderRequest

	faults error // of a body
}

// UnmarshalJSON decodes a form. Its faults are those of all fields.
func (in *Input) UnmarshalJSON(data []byte) error {
	type plain Input
	*in = Input{}
	in.faults = agent.DecodeForm(data, (*plain)(in))
	return settings.NotObject(in.faults)
}

// validate returns the row that in describes, without its sealed columns, and its settings with the
// secrets of in. It adds the faults.
func (in Input) validate(fields api.Fields) (row, agent.Provider) {
	settings.AddFaults(fields, in.faults)
	var p row
	p.Name = fields.Line("name", in.Name, 1, maxName)
	p.Models = checkModels(fields, in.Models)
	p.Enabled = in.Enabled == nil || *in.Enabled
	open := clean(fields, settingsOf(in.ProbeRequest))
	base, _, _ := strings.Cut(string(open.BaseURL), "?")
	p.Protocol, p.AuthStyle, p.BaseURL = open.Protocol, open.AuthStyle, base
	return p, open
}

// settingsOf returns the settings of a request as the runtime has them.
func settingsOf(in wire.ProbeRequest) agent.Provider {
	return agent.Provider{
		Protocol: in.Protocol, AuthStyle: in.AuthStyle, BaseURL: agent.Secret(in.BaseURL), APIKey: agent.Secret(in.APIKey.Value),
		APIKeyHeader: in.APIKeyHeader, Headers: settings.Hidden(in.Headers), Body: in.Body, StreamUsage: in.StreamUsage,
	}
}

// clean returns the settings of a provider with their defaults. It adds the faults, which are those
// that the runtime would find too.
func clean(fields api.Fields, p agent.Provider) agent.Provider {
	style, vendor := agentvalue.AuthAPIKey, anthropicURL
	switch p.Protocol {
	case agent.ProtocolAnthropic:
	case agent.ProtocolOpenAI:
		vendor = openAIURL
		if p.APIKeyHeader == "" {
			style = agentvalue.AuthBearer
		}
	default:
		fields.Add("protocol", "must be anthropic or openai")
	}

	p.AuthStyle = cmp.Or(p.AuthStyle, style)
	address, fault := cleanURL(cmp.Or(strings.TrimSpace(string(p.BaseURL)), vendor))
	if fault != "" {
		fields.Add("baseUrl", fault)
		address = vendor
	}

	p.BaseURL = agent.Secret(address)
	checkKey(fields, string(p.APIKey))
	if text, err := json.Marshal(withoutColumns(p)); err != nil || len(text) > maxSettings {
		fields.Add("headers", fmt.Sprintf("must have at most %d bytes together with the query and the body", maxSettings))
	}

	headers := make(map[string]agent.Secret, len(p.Headers))
	for name, value := range p.Headers {
		name = http.CanonicalHeaderKey(name)
		if _, repeated := headers[name]; repeated {
			fields.Add("headers."+name, "must not occur twice")
		}

		headers[name] = value
	}

	if p.Headers != nil {
		p.Headers = headers
	}

	p.APIKeyHeader = http.CanonicalHeaderKey(p.APIKeyHeader)
	checkRuntime(fields, p)
	return p
}

// checkKey adds the fault of a key that a header cannot carry.
func checkKey(fields api.Fields, key string) {
	visible := !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
	if !visible || len(key) > maxKey {
		fields.Add("apiKey", fmt.Sprintf("must be at most %d visible ASCII characters without spaces", maxKey))
	}
}

// checkRuntime adds what the runtime would reject, in the agent and in the adapter of the protocol.
func checkRuntime(fields api.Fields, p agent.Provider) {
	definition := agent.Agent{ID: "a", Model: "m", Provider: p}
	for _, err := range []error{definition.Validate(), definition.Check()} {
		faults, _ := errors.AsType[agent.Faults](err)
		for _, f := range faults {
			fields.Add(strings.TrimPrefix(f.Key, "provider."), f.Message)
		}
	}

	try := func(field string, part agent.Provider) {
		part.Protocol = p.Protocol
		part.BaseURL = "https://a.example"
		part.APIKey = "k"
		if _, err := adapter.New(part, &http.Client{}); err != nil && fields["protocol"] == "" {
			fields.Add(field, "is rejected by the runtime: "+strings.TrimPrefix(err.Error(), p.Protocol+": "))
		}
	}
	for name, value := range p.Headers {
		try("headers."+name, agent.Provider{Headers: map[string]agent.Secret{name: value}})
	}

	for name, value := range p.Body {
		try("body."+name, agent.Provider{Body: map[string]any{name: value}})
	}

	try("apiKeyHeader", agent.Provider{APIKeyHeader: p.APIKeyHeader})
}

func checkModels(fields api.Fields, models []wire.Model) []wire.Model {
	if len(models) > maxModels {
		fields.Add("models", fmt.Sprintf("must have at most %d models", maxModels))
		return nil
	}

	seen := map[string]bool{}
	clean := make([]wire.Model, 0, len(models))
	for i, m := range models {
		at := "models[" + strconv.Itoa(i) + "]."
		m.ID = fields.Line(at+"id", m.ID, 1, maxModelID)
		m.DisplayName = fields.Line(at+"displayName", m.DisplayName, 0, maxModelID)
		if seen[m.ID] {
			fields.Add(at+"id", "must not occur twice")
		}

		seen[m.ID] = true
		for name, n := range map[string]int{"contextWindow": m.ContextWindow, "maxOutput": m.MaxOutput} {
			if n < 0 || n > maxTokens {
				fields.Add(at+name, fmt.Sprintf("must be a number of tokens from 0 to %d", maxTokens))
			}
		}

		clean = append(clean, m)
	}

	return clean
}

// hostName is a name of ASCII labels. A last label that begins with a digit is excluded: resolvers
// of some systems read such a name as an address, in decimal, octal or hexadecimal.
var hostName = regexp.MustCompile(`^(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.?$`)

// cleanURL returns a base URL in the form in which base URLs are stored and compared: scheme and
// host in lower case, without a default port and a trailing slash, and with its query. Otherwise it
// returns the fault.
func cleanURL(text string) (string, string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxURL || u.Opaque != "" || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", "must be a URL like https://api.example.com/v1"
	case u.User != nil || u.ForceQuery || strings.Contains(text, "#"):
		return "", "must not have a user, an empty query or a fragment"
	case strings.ContainsFunc(u.RawQuery, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", "must have a query of visible ASCII characters: escape the others"
	}

	host, port := domain.Lower(u.Hostname()), u.Port()
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		host = addr.String()
		if addr.Is6() {
			host = "[" + host + "]"
		}
	} else if len(host) > 253 || !hostName.MatchString(host) {
		return "", "must have a host name in ASCII, or an address like 192.0.2.1 or [2001:db8::1]"
	}

	if n, err := strconv.ParseUint(port, 10, 16); strings.HasSuffix(u.Host, ":") || port != "" && (err != nil || n == 0) {
		return "", "must have a port from 1 to 65535"
	}

	if port != "" && port != map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		host += ":" + port
	}

	clean := u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		clean += "?" + u.RawQuery
	}

	return clean, ""
}

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
func builtins() []row {
	return []row{
		builtinRow(Anthropic, "Anthropic", agent.Provider{Protocol: agent.ProtocolAnthropic, AuthStyle: agentvalue.AuthAPIKey, BaseURL: anthropicURL}, []wire.Model{
			{ID: "claude-sonnet-4-5", DisplayName: "Claude Sonnet 4.5", ContextWindow: 200_000, MaxOutput: 64_000},
			{ID: "claude-haiku-4-5", DisplayName: "Claude Haiku 4.5", ContextWindow: 200_000, MaxOutput: 64_000},
			{ID: "claude-opus-4-1", DisplayName: "Claude Opus 4.1", ContextWindow: 200_000, MaxOutput: 32_000},
		}),
		builtinRow(OpenAI, "OpenAI", agent.Provider{Protocol: agent.ProtocolOpenAI, AuthStyle: agentvalue.AuthBearer, BaseURL: openAIURL}, []wire.Model{
			{ID: "gpt-5", DisplayName: "GPT-5", ContextWindow: 400_000, MaxOutput: 128_000},
			{ID: "gpt-5-mini", DisplayName: "GPT-5 mini", ContextWindow: 400_000, MaxOutput: 128_000},
			{ID: "gpt-4.1", DisplayName: "GPT-4.1", ContextWindow: 1_047_576, MaxOutput: 32_768},
		}),
		builtinRow(Demo, "Demo", agent.Provider{Protocol: agent.ProtocolDemo, AuthStyle: agentvalue.AuthNone}, []wire.Model{{ID: "demo", DisplayName: "Demo"}}),
	}
}

func builtinRow(id, name string, p agent.Provider, models []wire.Model) row {
	return row{Provider: wire.Provider{
		ID: id, Name: name, Protocol: p.Protocol, AuthStyle: p.AuthStyle, BaseURL: string(p.BaseURL), Shared: true, Models: models, Enabled: true, Version: 1,
	}}
}

// builtin returns the built-in provider with the id.
func builtin(id string) (row, bool) {
	all := builtins()
	if i := slices.IndexFunc(all, func(p row) bool { return p.ID == id }); i >= 0 {
		return all[i], true
	}

	return row{}, false
}

// matchingBuiltins returns the built-in providers whose name contains the folded text.
func matchingBuiltins(text string) []row {
	return slices.DeleteFunc(builtins(), func(p row) bool { return !strings.Contains(fold(p.Name), text) })
}
