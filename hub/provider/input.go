package provider

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
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
func (in Input) validate() (provider, error) {
	fields := api.Fields{}
	p := provider{Name: fields.Line("name", in.Name, 1, maxName), Enabled: in.Enabled == nil || *in.Enabled}
	p.Protocol, p.AuthStyle, p.BaseURL = checkTarget(fields, in.Protocol, in.AuthStyle, in.BaseURL)
	checkKey(fields, in.APIKey.Value)
	p.Models = checkModels(fields, in.Models)
	return p, fields.Err()
}

// checkTarget checks protocol, authentication and base URL, and returns them with their defaults.
func checkTarget(fields api.Fields, protocol, authStyle, baseURL string) (string, string, string) {
	style, vendor := AuthAPIKey, anthropicURL
	switch protocol {
	case ProtocolAnthropic:
	case ProtocolOpenAI:
		style, vendor = AuthBearer, openAIURL
	default:
		fields.Add("protocol", "must be anthropic or openai")
	}
	switch authStyle {
	case "", AuthAPIKey, AuthBearer, AuthNone:
	default:
		fields.Add("authStyle", "must be api_key, bearer or none")
	}
	baseURL, fault := cleanURL(cmp.Or(strings.TrimSpace(baseURL), vendor))
	if fault != "" {
		fields.Add("baseUrl", fault)
	}
	return protocol, cmp.Or(authStyle, style), baseURL
}

// checkKey adds a fault for a key that no HTTP header can carry.
func checkKey(fields api.Fields, key string) {
	visible := !strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
	if !visible || len(key) > maxKey {
		fields.Add("apiKey", fmt.Sprintf("must be at most %d visible ASCII characters without spaces", maxKey))
	}
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
