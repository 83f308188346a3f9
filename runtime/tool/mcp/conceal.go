package mcp

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// maxFault bounds the text of an error, in bytes: a server's own words may be in it.
const maxFault = 2 << 10

// leastSecret is the length from which on a value is hidden: 1 and true are no secrets, and are everywhere.
const leastSecret = 5

// concealer takes the values of a definition that may be secret out of a text, however they came into it.
func concealer(def agent.MCPServer) func(string) string {
	var secrets []string
	for _, v := range def.Env {
		secrets = append(secrets, string(v))
	}
	for _, v := range def.Headers { // "Bearer abc" is told without the Bearer too
		secrets = append(append(secrets, string(v)), strings.Fields(string(v))...)
	}
	if u, err := url.Parse(def.URL); err == nil && def.URL != "" {
		password, _ := u.User.Password()
		secrets = append(secrets, def.URL, u.String(), u.Redacted(), u.RawQuery, password)
	}
	secrets = slices.DeleteFunc(secrets, func(v string) bool { return len(v) < leastSecret || v == "Bearer" || v == "Basic" })
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // a URL before its query
	var pairs []string
	for _, v := range secrets {
		pairs = append(pairs, v, "***")
	}
	return strings.NewReplacer(pairs...).Replace
}

// clip cuts s at a character's border.
func clip(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "..."
}
