package hubcmd

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub"
)

// values sets the fields of values that are parsed. The error has all that are invalid.
func (s *settings) values(cfg *hub.Config) error {
	errs := make([]error, 12)
	cfg.ProbePrivate, errs[0] = s.probePrivate()
	cfg.ArtifactURL, errs[1] = s.artifactURL()
	cfg.UserAnswers, errs[2] = answers("HUB_ANSWERS_PER_USER", s.UserAnswers)
	cfg.AgentAnswers, errs[3] = answers("HUB_ANSWERS_PER_AGENT", s.AgentAnswers)
	cfg.AuditRetention, errs[4] = days("AUDIT_RETENTION_DAYS", s.RetentionDays)
	cfg.UsageRetention, errs[11] = days("HUB_USAGE_RETENTION_DAYS", s.UsageDays)
	cfg.TrustedProxies, errs[5] = s.proxies()
	cfg.CORSOrigins, errs[6] = s.origins()
	errs[7] = s.applyExternal(cfg)
	cfg.UserRequests, errs[9] = requests("HUB_REQUESTS_PER_USER", s.UserRequests)
	cfg.AddressRequests, errs[10] = requests("HUB_REQUESTS_PER_ADDRESS", s.AddrRequests)
	cfg.Prices, errs[8] = prices("HUB_MODEL_PRICES", s.ModelPrices)
	return errors.Join(errs...)
}

// days parses a retention. An empty one is 0, which is never.
func days(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	const century = 36_500
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > century {
		return 0, fmt.Errorf("%s: %q is not a number of days from 1 to %d", name, text, century)
	}
	return time.Duration(n) * 24 * time.Hour, nil
}

// probePrivate reports whether providers at private addresses may be probed.
func (s *settings) probePrivate() (bool, error) {
	switch s.ProbePrivate {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, fmt.Errorf("HUB_PROBE_ALLOW_PRIVATE: %q is neither true nor false", s.ProbePrivate)
}

// loopback reports whether only this machine can reach the host.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// publicURL returns the base of links: the setting, or the listen address.
func (s *settings) publicURL(addr net.Addr) (string, error) {
	if s.PublicURL == "" {
		host := addr.String()
		if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
			host = fmt.Sprintf("localhost:%d", tcp.Port) // an unspecified address cannot be called
		}
		return "http://" + host, nil
	}
	u, err := url.Parse(s.PublicURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("HUB_PUBLIC_URL is not a base URL: use http:// or https://, a host, and no query")
	}
	return strings.TrimSuffix(s.PublicURL, "/"), nil
}

// minProxyBits is the prefix length of the widest permitted network of proxies, such as 10.0.0.0/8.
const minProxyBits = 8

// proxies parses HUB_TRUSTED_PROXIES.
func (s *settings) proxies() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range list(s.TrustedProxies) {
		prefix, err := netip.ParsePrefix(text)
		if addr, bare := netip.ParseAddr(text); bare == nil {
			prefix, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("HUB_TRUSTED_PROXIES: %q is not a network: use a prefix such as 10.0.0.0/8, or an address", text)
		}
		if prefix.Bits() < minProxyBits {
			return nil, fmt.Errorf("HUB_TRUSTED_PROXIES: %q is too wide: its hosts could claim any address in the audit log; list only your proxies", text)
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}

// origins parses HUB_CORS_ORIGINS.
func (s *settings) origins() ([]string, error) {
	all := list(s.CORSOrigins)
	for _, text := range all {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || text != u.Scheme+"://"+u.Host {
			return nil, fmt.Errorf("HUB_CORS_ORIGINS: %q is not an origin: use only scheme, host and port, such as https://app.example.com", text)
		}
	}
	return all, nil
}

func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}
