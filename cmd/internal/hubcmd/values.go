package hubcmd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
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
func (s *Settings) values(cfg *hub.Config) {
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
func (s *Settings) publicURL(addr net.Addr) string {
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
func (s *Settings) artifactURL() string {
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
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode((*map[string]hub.Price)(p)); err != nil {
		return fmt.Errorf("parse prices: %w", err)
	}

	if decoder.More() {
		return errors.New("parse prices: there is text after the object")
	}

	for name, price := range *p {
		if err := price.Check(name); err != nil {
			return err
		}
	}

	return nil
}

// userIDs are the first and the last of a range of user ids. Zero is none.
type userIDs [2]int

// UnmarshalText parses "1900000000-1900065535", or "none".
func (u *userIDs) UnmarshalText(text []byte) error {
	if string(text) == "none" {
		*u = userIDs{}
		return nil
	}

	n, err := fmt.Sscanf(string(text)+"\n", "%d-%d\n", &u[0], &u[1])
	if err != nil || n != 2 || u[0] < 1 || u[1] < u[0] || u[1] >= 1<<31-1 {
		return fmt.Errorf("%q is not a range of user ids, such as 1900000000-1900065535", text)
	}

	return nil
}
