// Package upstream is the HTTP half of a model adapter: it sends one request, converts any response
// that is not an event stream into an error, and yields the parts that the adapter's [Decoder]
// decodes from the events. Nothing is retried, no redirect is followed, and the environment is not
// read.
//
// An upstream is untrusted. An event has at most 8 MiB and 262,144 values, an error body at most 64
// KiB, and a response as much as [response.MaxBytesTotal] and [response.MaxBlocks] allow.
// Decoding an event takes time and memory in proportion to its size and its values; encoding/json
// bounds its depth. Data that a decoder collects over several events is encoded once, at the end,
// or counts against a limit each time.
package upstream

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed93082962/agenthost/internal/domain"
	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/internal/pattern"
	"github.com/seed93082962/agenthost/runtime/model"
)

// Values of Config.AuthStyle.
const (
	AuthAPIKey = "api_key" // x-api-key: KEY
	AuthBearer = "bearer"  // Authorization: Bearer KEY
	AuthNone   = "none"
)

// Config configures a [Client].
type Config struct {
	Name      string      // of the adapter, for errors of New
	BaseURL   string      // the address before Path
	Path      string      // "v1/messages"
	KeyNeeded bool        // BaseURL is the address of a vendor that requires a key
	APIKey    string      // "" sends none
	AuthStyle string      // one of the constants
	Header    http.Header // sent with every request

	// KeyHeader is the header that carries the key with AuthAPIKey. Defaults to x-api-key.
	KeyHeader string

	// Custom are further headers. Their values are secret.
	Custom map[string]string

	// Body are further fields of every request. They replace those of the same name; null removes a
	// field. Fixed are the fields that Body must not have.
	Body  map[string]json.RawMessage
	Fixed []string

	Tools func([]model.Tool) any // returns the value of the field tools

	HTTPClient *http.Client
}

// Client calls one upstream. It is safe for concurrent use.
type Client struct {
	name    string
	url     string
	hosts   []string // that messages must not show
	header  http.Header
	secrets []string // that messages must not show, the longest first, because one may contain another
	body    map[string]json.RawMessage
	list    func([]model.Tool) any
	tools   atomic.Pointer[toolField] // of the latest request
	http    *http.Client
	own     *http.Transport // nil if Config named an http.Client
}

// New checks cfg. Its errors contain neither the key nor the address.
func New(cfg Config) (*Client, error) {
	fail := func(what string) (*Client, error) { return nil, fmt.Errorf("%s: %s", cfg.Name, what) }

	u, err := url.Parse(cfg.BaseURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		return fail("base URL is not an absolute http or https URL")
	}

	if u.User != nil || u.Fragment != "" {
		return fail("base URL has a user or a fragment")
	}

	header := http.Header{
		"Accept":       {"text/event-stream"},
		"Content-Type": {"application/json"},
		"User-Agent":   {"agenthost"},
		// A compressed stream comes in blocks, not event by event.
		"Accept-Encoding": {"identity"},
	}
	maps.Copy(header, cfg.Header)
	if err := addCustom(header, cfg.Custom); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Name, err)
	}

	switch cfg.AuthStyle {
	case AuthAPIKey, AuthBearer:
		if cfg.APIKey == "" && cfg.KeyNeeded {
			return fail("API key is missing")
		}

		if strings.ContainsFunc(cfg.APIKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return fail("API key contains a character that no header can carry")
		}

		switch {
		case cfg.APIKey == "":
		case cfg.AuthStyle == AuthAPIKey:
			name := http.CanonicalHeaderKey(cmp.Or(cfg.KeyHeader, "X-Api-Key"))
			if !headerName().MatchString(name) {
				return fail("the header of the API key has an invalid name")
			}

			header[name] = []string{cfg.APIKey}
		default:
			header["Authorization"] = []string{"Bearer " + cfg.APIKey}
		}
	case AuthNone:
	default:
		return fail("auth style must be api_key, bearer or none")
	}

	for _, name := range cfg.Fixed {
		if _, ok := cfg.Body[name]; ok {
			return fail(fmt.Sprintf("body field %s cannot be set", name))
		}
	}

	c := &Client{name: cfg.Name, url: u.JoinPath(cfg.Path).String(), header: header, body: cfg.Body, list: cfg.Tools}
	for _, value := range append(slices.Collect(maps.Values(cfg.Custom)), cfg.APIKey) {
		if len(value) >= minSecret {
			c.secrets = append(c.secrets, value)
		}
	}

	slices.SortFunc(c.secrets, func(a, b string) int { return len(b) - len(a) })
	for _, host := range []string{u.Host, u.Hostname()} {
		if strings.ContainsAny(host, ".:") { // a name without a dot may be any word
			c.hosts = append(c.hosts, host)
		}
	}

	if cfg.HTTPClient != nil {
		copied := *cfg.HTTPClient
		c.http = &copied
	} else {
		c.own = outbound.Transport()
		c.http = &http.Client{Transport: c.own}
	}

	// An API does not redirect, and the key must not be sent to the target of a redirect.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// minSecret is the minimum length of a custom header value that is removed from messages. Shorter
// values may be ordinary words.
const minSecret = 4

var headerName = pattern.Compile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// addCustom sets custom headers. Those that frame the request or select the form of the response
// are rejected.
func addCustom(header http.Header, custom map[string]string) error {
	for name, value := range custom {
		canonical := http.CanonicalHeaderKey(name)
		switch canonical {
		case "Accept", "Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Host",
			"Transfer-Encoding", "Trailer", "Upgrade":
			return fmt.Errorf("header %s cannot be set", canonical)
		}

		if !headerName().MatchString(name) {
			return fmt.Errorf("header %q has an invalid name", name)
		}

		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return fmt.Errorf("header %s has an invalid value", canonical)
		}

		header[canonical] = []string{value}
	}

	return nil
}

// CloseIdleConnections closes the idle connections, unless Config named an http.Client, which
// belongs to the caller.
func (c *Client) CloseIdleConnections() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// errReleased is the error of a transport that sends a body again after the response has begun.
var errReleased = errors.New("request body was released")

// HasDomain reports whether the host of an address is one of the domains or below one.
func HasDomain(base string, domains ...string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}

	host := domain.Lower(u.Hostname())
	return slices.ContainsFunc(domains, func(d string) bool { return host == d || strings.HasSuffix(host, "."+d) })
}

// RequiresThinking reports whether an address is that of DeepSeek or Kimi. In thinking mode they
// reject assistant messages without thinking, also those of another model.
func RequiresThinking(base string) bool {
	return HasDomain(base, "deepseek.com", "moonshot.ai", "moonshot.cn", "kimi.com")
}

// NoThinking is the thinking of a message that has none. Kimi treats an empty text as missing.
const NoThinking = " "
