package agent

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
)

var (
	protocols  = []string{ProtocolAnthropic, ProtocolOpenAI, ProtocolDemo}
	authStyles = []string{AuthAPIKey, AuthBearer, AuthNone}
	toolHash   = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// Check reports, as [Faults] with keys relative to the agent, why a valid agent is unavailable: it
// has an unknown protocol or authentication style, a malformed address or hash, an MCP server whose
// address has a user or a password, or refers to an MCP server that it does not define. Other agents
// are not affected. Check examines only the
// definition. The runtime checks whether files, keys and tools exist.
func (a *Agent) Check() error {
	var faults Faults
	if p := a.Provider.Protocol; !slices.Contains(protocols, p) {
		faults.add("provider.protocol", "%s", unknownValue(p, protocols))
	}
	if s := a.Provider.AuthStyle; s != "" && !slices.Contains(authStyles, s) {
		faults.add("provider.authStyle", "%s", unknownValue(s, authStyles))
	}
	if b := string(a.Provider.BaseURL); b != "" {
		if u, err := url.Parse(b); err != nil || !isHTTP(u) {
			faults.add("provider.baseUrl", "must be an http or https address")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.MCPServers)) {
		address := a.MCPServers[name].URL
		if u, err := url.Parse(address); address != "" && (err != nil || !isHTTP(u) || u.User != nil) {
			faults.add(child(child("mcpServers", name), "url"), "must be an http or https address without a user and a password: send them in headers")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.Subagents)) {
		for i, server := range a.Subagents[name].MCPServers {
			if _, ok := a.MCPServers[server]; !ok {
				faults.add(element(child(child("subagents", name), "mcpServers"), i), "%q is not in mcpServers", server)
			}
		}
	}
	for i, t := range a.CustomTools {
		if t.Hash != "" && !toolHash.MatchString(t.Hash) {
			faults.add(child(element("customTools", i), "hash"), "must be sha256: and 64 lower-case hex digits")
		}
	}
	return faults.err()
}

func isHTTP(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}
