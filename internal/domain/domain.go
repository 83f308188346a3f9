// Package domain reads the hosts that the network proxy of a sandbox connects to: definitions of
// agents contain them, and the proxy compares them.
package domain

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Pattern is a host, or all hosts below a name.
type Pattern struct {
	name  string // without "*."
	below bool   // names below it match, and it does not
	port  string // "" for the usual one
}

// Parse parses "example.com", "*.example.com" for the names below it, or "example.com:8443" for
// another port than the usual one.
func Parse(text string) (Pattern, error) {
	name, port, found := strings.Cut(text, ":")
	p := Pattern{port: port}
	if found {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return p, fmt.Errorf("domain %.300q: the port is not a number from 1 to 65535", text)
		}
	}

	p.name, p.below = strings.CutPrefix(Lower(strings.TrimSuffix(name, ".")), "*.")
	valid := strings.Trim(p.name, "abcdefghijklmnopqrstuvwxyz0123456789.-") == "" && p.name != "" && len(p.name) <= 253
	if _, err := netip.ParseAddr(p.name); !valid || p.below && err == nil {
		return p, fmt.Errorf("domain %.300q: use a host such as example.com, *.example.com or example.com:8443", text)
	}

	return p, nil
}

// Matches reports whether p permits a connection to port of host, which is in lower case and does
// not end in a dot. A pattern without a port permits the usual one.
func (p Pattern) Matches(host, port, usual string) bool {
	if p.port != port && (p.port != "" || port != usual) {
		return false
	}

	if p.below {
		return strings.HasSuffix(host, "."+p.name)
	}

	return host == p.name
}

// Lower returns a host with the letters of ASCII in lower case. Hosts are compared so (RFC 4343).
// Others, such as the capital I with a dot, have a lower case in ASCII, but name another host.
func Lower(host string) string {
	b := []byte(host)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}

	return string(b)
}
