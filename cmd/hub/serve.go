package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/secret"
)

// open makes a hub of the settings. addr is nil where nobody is going to be served.
func (s *settings) open(ctx context.Context, addr net.Addr, log *slog.Logger) (*hub.Hub, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	cfg := hub.Config{DatabaseURL: s.databaseURL(), SetupToken: s.SetupToken, Version: daemon.Version(), Logger: log}
	var err error
	if cfg.AuditRetention, err = s.retention(); err != nil {
		return nil, err
	}
	if cfg.TrustedProxies, err = s.proxies(); err != nil {
		return nil, err
	}
	if cfg.CORSOrigins, err = s.origins(); err != nil {
		return nil, err
	}
	if addr != nil {
		if cfg.PublicURL, err = s.publicURL(addr); err != nil {
			return nil, err
		}
		tcp, ok := addr.(*net.TCPAddr)
		// A proxy on this machine may pass requests of others on without a word of it.
		cfg.Loopback = ok && tcp.IP.IsLoopback() && len(cfg.TrustedProxies) == 0 && loopback(hostOf(cfg.PublicURL))
	}
	cfg.Offline = addr == nil
	if cfg.EncryptionKeys, err = s.encryptionKeys(log); err != nil {
		return nil, err
	}
	h, err := hub.New(ctx, cfg)
	if errors.Is(err, secret.ErrUnknownKey) {
		name := "PROVIDER_ENCRYPTION_KEY"
		if s.EncryptionKeys == "" {
			name = filepath.Join(s.DataDir, keyFile)
		}
		return nil, fmt.Errorf("%s has no key that opens what this database has sealed: bring the former one back, alone or behind a new one: %w", name, err)
	}
	return h, err
}

// serve answers requests until ctx ends, and drains then.
func (s *settings) serve(ctx context.Context, log *slog.Logger, stdout io.Writer) error {
	if err := s.check(); err != nil { // before the port is taken
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return err // which says "listen tcp" and the address
	}
	defer func() { _ = listener.Close() }() // the server has, if it was ever started
	h, err := s.open(ctx, listener.Addr(), log)
	if err != nil {
		return err
	}
	base := h.PublicURL()
	if strings.HasPrefix(base, "http://") && !loopback(hostOf(base)) {
		log.Warn("passwords and tokens cross the network in the clear: put TLS in front and set HUB_PUBLIC_URL to https://...", "url", base)
	}
	server := &daemon.Server{
		Handler: h, Listener: listener, Log: log,
		Drain: h.Drain, DrainTimeout: s.DrainTimeout,
		Welcome: func() { welcome(stdout, h, listener.Addr()) },
	}
	err = server.Serve(ctx)
	return errors.Join(err, h.Close())
}

func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// welcome says where the hub is, and how to set it up where nobody has.
func welcome(w io.Writer, h *hub.Hub, addr net.Addr) {
	fmt.Fprintf(w, "agenthost hub %s, listening on http://%s\n", daemon.Version(), addr)
	token := h.SetupToken()
	if token == "" {
		return
	}
	fmt.Fprintf(w, `Nobody has set it up. Make the first admin, with a password of at least 8 characters:

  curl --json '{"username": "admin", "password": "...", "setup_token": "%[2]s"}' %[1]s/auth/setup

`, h.PublicURL(), token)
}
