package permission

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
)

// domain is a pattern over the host of a URL, in lower case: a host name, "*.host" or "*".
type domain string

func parseDomain(text string) (pattern, error) {
	name, ok := strings.CutPrefix(text, "domain:")
	if text == "*" {
		name, ok = text, true
	}
	name = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), ".")
	host := strings.TrimPrefix(name, "*.")
	switch {
	case !ok:
		return nil, errors.New("a WebFetch pattern is domain:example.com, domain:*.example.com or domain:*")
	case name != "*" && (!unambiguousHost(host) || strings.Contains(host, ":")):
		return nil, errors.New("a domain is a host name without a port, in its xn-- form if it is not ASCII; * may be its first label")
	}
	return domain(name), nil
}

// unambiguousHost reports whether all URL parsers agree about a host.
func unambiguousHost(host string) bool {
	return host != "" && !strings.Contains("."+host+".", "..") && !strings.ContainsFunc(host, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c != ':'
	})
}

func (d domain) allows(c *call, _ int) bool {
	host, ok := c.host()
	return ok && (string(d) == host || d.matchesWildcard(host))
}

func (d domain) denies(c *call) bool {
	host, ok := c.host()
	return !ok || string(d) == host || d.matchesWildcard(host) || strings.HasSuffix(host, "."+string(d))
}

func (d domain) matchesWildcard(host string) bool {
	rest, ok := strings.CutPrefix(string(d), "*")
	return ok && len(host) > len(rest) && strings.HasSuffix(host, rest)
}

// host returns the host of the call's URL, and whether it is unambiguous.
func (c *call) host() (string, bool) {
	var in struct {
		URL string `json:"url"`
	}
	if json.Unmarshal(c.input, &in) != nil {
		return "", false
	}
	u, err := url.Parse(in.URL)
	if err != nil || u.User != nil || u.Opaque != "" || !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https") {
		return "", false
	}
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	return host, unambiguousHost(host)
}
