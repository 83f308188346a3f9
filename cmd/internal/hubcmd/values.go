package hubcmd

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/hub"
)

const day = 24 * time.Hour

// values sets the fields of hub.Config that no part of the hub is made for. It adds the faults of
// their settings.
func (s *settings) values(cfg *hub.Config) {
	cfg.DatabaseURL = s.databaseURL()
	cfg.GatewayURL = string(s.GatewayURL)
	cfg.SetupToken = s.SetupToken
	cfg.OpsKey, cfg.ChatPushKey = s.OpsKey, s.PushKey
	cfg.HideRuntimeKeys = !s.KeyVisible
	cfg.ProbePrivate = s.ProbePrivate
	cfg.LeaseTime, cfg.PrepareTimeout = s.LeaseTime, s.PrepareTimeout
	cfg.UserAnswers, cfg.AgentAnswers = s.UserAnswers, s.AgentAnswers
	cfg.UserRequests, cfg.AddressRequests = cmp.Or(s.UserRequests, -1), cmp.Or(s.AddrRequests, -1)
	cfg.AuditRetention, cfg.UsageRetention = time.Duration(s.RetentionDays)*day, time.Duration(s.UsageDays)*day
	cfg.Prices = s.ModelPrices
	cfg.TrustedProxies, cfg.CORSOrigins = s.TrustedProxies, s.CORSOrigins
	cfg.MaxDeployment = s.maxDeployment()
	cfg.ArtifactURL = s.artifactURL()
	s.applyExternal(cfg)
	for _, network := range s.TrustedProxies {
		if network.Bits() < minProxyBits {
			s.Fault(&s.TrustedProxies, "%q is too wide: its hosts could claim any address in the audit log; list only your proxies", network)
		}
	}

	for _, text := range s.CORSOrigins {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || text != u.Scheme+"://"+u.Host {
			s.Fault(&s.CORSOrigins, "%q is not an origin: use only scheme, host and port, such as https://app.example.com", text)
		}
	}
}

// minProxyBits is the prefix length of the widest permitted network of proxies, such as 10.0.0.0/8.
const minProxyBits = 8

// loopback reports whether only this machine can reach the host.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// publicURL returns the base of links: the setting, or the listen address.
func (s *settings) publicURL(addr net.Addr) string {
	if s.PublicURL != "" {
		return string(s.PublicURL)
	}

	host := addr.String()
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		host = fmt.Sprintf("localhost:%d", tcp.Port) // an unspecified address cannot be called
	}

	return "http://" + host
}

// artifactURL returns the address of OSS_CDN_HOST, or "" for the hub's own.
func (s *settings) artifactURL() string {
	address := s.CDNHost
	if address != "" && !strings.Contains(address, "://") {
		address = "https://" + address
	}

	var base daemon.URL
	if address != "" && base.UnmarshalText([]byte(address)) != nil {
		s.Fault(&s.CDNHost, "it is not a host or a base URL such as https://cdn.example.com")
	}

	return string(base)
}

// prices are the prices of models by name.
type prices map[string]hub.Price

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *prices) UnmarshalText(text []byte) error {
	var err error
	*p, err = hub.ParsePrices(string(text))
	return err
}
