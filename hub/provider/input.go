package provider

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/hub/api"
)

const (
	maxName    = 128  // characters
	maxURL     = 2048 // bytes
	maxModels  = 200
	maxModelID = 128     // characters
	maxTokens  = 1 << 30 // of a context window
)

// Input is a provider as a user writes it.
type Input struct {
	Name      string    `json:"name"`
	Protocol  string    `json:"protocol"`  // anthropic or openai
	AuthStyle string    `json:"authStyle"` // Defaults to api_key for anthropic, and bearer for openai.
	BaseURL   string    `json:"baseUrl"`   // Defaults to that of the vendor.
	APIKey    KeyChange `json:"apiKey"`
	Models    []Model   `json:"models"`
	Enabled   *bool     `json:"enabled"` // Defaults to true.
}

// validate returns the provider that in describes, without its key, or the faults by field.
func (in Input) validate() (p provider, err error) {
	fields := api.Fields{}
	p.Name = fields.Line("name", in.Name, 1, maxName)
	to := target{protocol: in.Protocol, authStyle: in.AuthStyle, baseURL: in.BaseURL, key: in.APIKey.Value}.clean(fields)
	p.Protocol = to.protocol
	p.AuthStyle = to.authStyle
	p.BaseURL = to.baseURL
	p.Models = checkModels(fields, in.Models)
	p.Enabled = in.Enabled == nil || *in.Enabled
	return p, fields.Err()
}

// target is the server of a provider, and how it is called.
type target struct{ protocol, authStyle, baseURL, key string }

// clean returns the target with its defaults, and adds the faults of its fields.
func (to target) clean(fields api.Fields) target {
	style, vendor := AuthAPIKey, anthropicURL
	switch to.protocol {
	case ProtocolAnthropic:
	case ProtocolOpenAI:
		style, vendor = AuthBearer, openAIURL
	default:
		fields.Add("protocol", "must be anthropic or openai")
	}
	switch to.authStyle {
	case "", AuthAPIKey, AuthBearer, AuthNone:
	default:
		fields.Add("authStyle", "must be api_key, bearer or none")
	}
	to.authStyle = cmp.Or(to.authStyle, style)
	var fault string
	if to.baseURL, fault = cleanURL(cmp.Or(strings.TrimSpace(to.baseURL), vendor)); fault != "" {
		fields.Add("baseUrl", fault)
	}
	// A header can carry the key.
	visible := !strings.ContainsFunc(to.key, func(r rune) bool { return r <= ' ' || r > '~' })
	if !visible || len(to.key) > maxKey {
		fields.Add("apiKey", fmt.Sprintf("must be at most %d visible ASCII characters without spaces", maxKey))
	}
	return to
}

func checkModels(fields api.Fields, models []Model) []Model {
	if len(models) > maxModels {
		fields.Add("models", fmt.Sprintf("must have at most %d models", maxModels))
		return nil
	}
	seen := map[string]bool{}
	clean := make([]Model, 0, len(models))
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
// host in lower case, without a default port and a trailing slash. Otherwise it returns the fault.
func cleanURL(text string) (clean, fault string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > maxURL || u.Opaque != "" || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", "must be a URL like https://api.example.com/v1"
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", "must not have a user, a query or a fragment"
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
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
	return u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/"), ""
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
func builtins() []provider {
	return []provider{
		{Provider: Provider{
			ID: Anthropic, Name: "Anthropic", Protocol: ProtocolAnthropic, AuthStyle: AuthAPIKey, BaseURL: anthropicURL, Enabled: true, Version: 1,
			Models: []Model{
				{ID: "claude-sonnet-4-5", DisplayName: "Claude Sonnet 4.5", ContextWindow: 200_000, MaxOutput: 64_000},
				{ID: "claude-haiku-4-5", DisplayName: "Claude Haiku 4.5", ContextWindow: 200_000, MaxOutput: 64_000},
				{ID: "claude-opus-4-1", DisplayName: "Claude Opus 4.1", ContextWindow: 200_000, MaxOutput: 32_000},
			},
		}},
		{Provider: Provider{
			ID: OpenAI, Name: "OpenAI", Protocol: ProtocolOpenAI, AuthStyle: AuthBearer, BaseURL: openAIURL, Enabled: true, Version: 1,
			Models: []Model{
				{ID: "gpt-5", DisplayName: "GPT-5", ContextWindow: 400_000, MaxOutput: 128_000},
				{ID: "gpt-5-mini", DisplayName: "GPT-5 mini", ContextWindow: 400_000, MaxOutput: 128_000},
				{ID: "gpt-4.1", DisplayName: "GPT-4.1", ContextWindow: 1_047_576, MaxOutput: 32_768},
			},
		}},
		{Provider: Provider{
			ID: Demo, Name: "Demo", Protocol: ProtocolDemo, AuthStyle: AuthNone, Enabled: true, Version: 1,
			Models: []Model{{ID: "demo", DisplayName: "Demo"}},
		}},
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
