package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/agentvalue"
)

// A hub seals the values of env, of headers and of the query of an address. The command line and
// the rest of the address are stored as they are, and readers of the hub see them. So a variable of
// a command line is stored as a reference to a variable of env.

// inherited are variables that each server has from its runtime. None is secret.
var inherited = []string{"HOME", "LANG", "PATH", "TMPDIR", "TZ", "USER"}

// addReferences adds the variables to which the command line of a server refers to its env. value
// returns that of a variable that is not part of it, and explicit are those that the file itself
// takes from env. It returns what is wrong, or "".
func addReferences(req *wire.MCPRequest, explicit []string, getenv, value func(name string) string) string {
	for _, text := range append([]string{req.Command, req.CWD}, req.Args...) {
		for _, name := range agentvalue.References(text) {
			own, known := req.Env[name]
			if now := getenv(name); known && now != "" && own != now && !slices.Contains(explicit, name) {
				return fmt.Sprintf("${%s} is another value than that of env.%s: rename one of them", name, name)
			}

			if req.Env == nil {
				req.Env = map[string]string{}
			}

			if !known {
				req.Env[name] = value(name)
			}
		}
	}

	return ""
}

// notAddress returns what is wrong with the references in an address, or "".
func notAddress(address string, getenv func(string) string) string {
	base, _, _ := strings.Cut(address, "?")
	for _, name := range agentvalue.References(base) {
		u, err := url.Parse(getenv(name))
		isAddress := err == nil && slices.Contains([]string{"http", "https"}, u.Scheme) && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
		if !isAddress || !strings.HasPrefix(base, agentvalue.Reference(name)) {
			return fmt.Sprintf("the hub does not seal an address, and ${%s} is perhaps secret: write its value, or use it in headers, in the query, "+
				"or as the begin of the address with a value such as https://host/path", name)
		}
	}

	return ""
}
