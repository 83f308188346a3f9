package mcp

import (
	"net/url"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// maxErrorText bounds the text of an error in bytes, since parts of it may come from the server.
const maxErrorText = 2 << 10

// minSecret is the length of the shortest redacted value: values such as 1 and true are not secret
// and occur in many texts.
const minSecret = 5

// newRedactor returns a function that replaces the values of a definition that may be secret in a
// text.
func newRedactor(def agent.MCPServer) func(string) string {
	var secrets []string
	for _, v := range def.Env {
		secrets = append(secrets, string(v))
	}
	for _, v := range def.Headers { // abc of "Bearer abc" is redacted too
		secrets = append(append(secrets, string(v)), strings.Fields(string(v))...)
	}
	if u, err := url.Parse(def.URL); err == nil && def.URL != "" {
		password, _ := u.User.Password()
		secrets = append(secrets, def.URL, u.String(), u.Redacted(), u.RawQuery, password)
	}
	secrets = slices.DeleteFunc(secrets, func(v string) bool { return len(v) < minSecret || v == "Bearer" || v == "Basic" })
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // a URL before its query
	var pairs []string
	for _, v := range secrets {
		pairs = append(pairs, v, "***")
	}
	return strings.NewReplacer(pairs...).Replace
}
