package drivers

import (
	"cmp"
	"net"
	"net/url"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
	"github.com/seed93082962/agenthost/runtime/run/natsbus"
)

// bus returns the bus of the replicas of runtimes, or nil. It adds the faults of its settings.
func bus(s *hubcmd.Settings) *kubernetes.Bus {
	if s.BusURL == "" {
		return nil
	}

	cfg, err := natsbus.Parse(s.BusURL)
	if err != nil {
		s.Invalid(&s.BusURL, err)
		return nil
	}

	if cfg.Scope != "" {
		s.Fault(&s.BusURL, "it has a scope after the bucket: omit it, because each deployment has one of its own")
	}

	b := &kubernetes.Bus{URL: cfg.Servers[0], Files: map[string][]byte{}}
	for i, server := range cfg.Servers {
		u, err := url.Parse(server)
		if err != nil {
			s.Fault(&s.BusURL, "it has a host that is malformed")
			return nil
		}

		b.Servers = append(b.Servers, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222")))
		if i > 0 {
			b.URL += "," + u.Host
		}
	}

	b.URL += "/" + cfg.Bucket
	for parameter, path := range map[string]string{
		"credentials": cfg.CredentialsFile, "nkey": cfg.SeedFile, "ca": cfg.CAFile, "cert": cfg.CertFile, "key": cfg.KeyFile,
	} {
		if path == "" {
			continue
		}

		text, err := daemon.ReadSecret(path)
		if err != nil {
			s.Fault(&s.BusURL, "%s: %v", parameter, err)
		}

		b.Files[parameter] = []byte(text)
	}

	if s.BusSeed == "" {
		return b
	}

	if u, err := url.Parse(cfg.Servers[0]); err != nil || u.User != nil || cfg.CredentialsFile != "" || cfg.SeedFile != "" {
		s.Fault(&s.BusSeed, "AGENT_BUS_URL has a user or credentials, which each deployment has of its own: omit them")
	}

	issuer, err := natsbus.NewIssuer([]byte(s.BusSeed), s.BusAccount, cfg.Bucket)
	if err != nil {
		s.Invalid(&s.BusSeed, err)
		return nil
	}

	b.Credentials = issuer.Credentials
	return b
}
