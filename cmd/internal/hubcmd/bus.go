package hubcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
	"github.com/seed93082962/agenthost/runtime/run/natsbus"
)

// maxBusFile bounds a file of the bus, in bytes: a Secret has at most a mebibyte.
const maxBusFile = 64 << 10

// bus returns the bus of the replicas of runtimes, or nil. It adds the faults of its settings.
func (s *settings) bus() *kubernetes.Bus {
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
		if b.Files[parameter], err = readBusFile(path); err != nil {
			s.Fault(&s.BusURL, "%s: %v", parameter, err)
		}
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

func readBusFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, maxBusFile+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(text) > maxBusFile || strings.TrimSpace(string(text)) == "" {
		return nil, fmt.Errorf("%s is empty or has more than %d bytes", path, maxBusFile)
	}
	return text, nil
}
