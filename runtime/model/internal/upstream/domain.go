package upstream

import (
	"net/url"
	"slices"
	"strings"
)

// HasDomain reports whether the host of an address is one of the domains or below one.
func HasDomain(base string, domains ...string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	return slices.ContainsFunc(domains, func(d string) bool { return host == d || strings.HasSuffix(host, "."+d) })
}

// RequiresThinking reports whether an address is that of DeepSeek or Kimi. In thinking mode they
// reject assistant messages without thinking, also those of another model.
func RequiresThinking(base string) bool {
	return HasDomain(base, "deepseek.com", "moonshot.ai", "moonshot.cn", "kimi.com")
}

// NoThinking is the thinking of a message that has none. Kimi treats an empty text as missing.
const NoThinking = " "
