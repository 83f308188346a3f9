// Package upstream is the HTTP half of a model adapter: it sends one request, sorts out whatever
// is not an event stream, and hands the events of one that is to the adapter's [Decoder], whose
// parts it yields. Nothing is retried, no redirect is followed, the environment is not read.
package upstream

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed93082962/agenthost/internal/outbound"
)

// How the key is sent.
const (
	AuthAPIKey = "api_key" // x-api-key: KEY
	AuthBearer = "bearer"  // Authorization: Bearer KEY
	AuthNone   = "none"
)

// Config says where an upstream is and how it is spoken to.
type Config struct {
	Name       string      // of the adapter, for errors of New
	BaseURL    string      // what stands before Path
	Path       string      // "v1/messages"
	KeyNeeded  bool        // whether BaseURL is a vendor's own address, where no key means no answer
	APIKey     string      // "" sends none
	AuthStyle  string      // one of the constants
	Header     http.Header // sent with every request
	HTTPClient *http.Client
}

// Client calls one upstream. It is safe for concurrent use.
type Client struct {
	url    string
	hosts  []string // as messages must not show them
	header http.Header
	key    string
	http   *http.Client
	own    *http.Transport // nil where the caller brought an http.Client
}

// New checks cfg. Its errors show neither the key nor the address.
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
	switch cfg.AuthStyle {
	case AuthAPIKey, AuthBearer:
		if cfg.APIKey == "" && cfg.KeyNeeded {
			return fail("API key is missing")
		}
		if strings.ContainsFunc(cfg.APIKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return fail("API key holds a character that no header can carry")
		}
		switch {
		case cfg.APIKey == "":
		case cfg.AuthStyle == AuthAPIKey:
			header["X-Api-Key"] = []string{cfg.APIKey}
		default:
			header["Authorization"] = []string{"Bearer " + cfg.APIKey}
		}
	case AuthNone:
	default:
		return fail("auth style is none of api_key, bearer and none")
	}

	c := &Client{
		url:    u.JoinPath(cfg.Path).String(),
		header: header,
		key:    cfg.APIKey,
	}
	for _, host := range []string{u.Host, u.Hostname()} {
		if strings.ContainsAny(host, ".:") { // a bare name may be any word
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
	// An API does not redirect, and the key must not go where a redirect says.
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// CloseIdleConnections closes what is kept open for further calls, unless an http.Client was
// given: then it is the caller's to close.
func (c *Client) CloseIdleConnections() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// errReleased is what a transport gets that wants to send a body again after the answer began.
var errReleased = errors.New("request body is gone")
