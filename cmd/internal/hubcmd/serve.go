package hubcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/internal/httpserve"
	"github.com/seed93082962/agenthost/internal/secret"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// open returns a hub with the settings. A nil addr means an offline hub, which serves no requests.
// files are required unless it is offline. seen may be nil.
func (s *Settings) open(ctx context.Context, addr net.Addr, files blob.Driver, seen telemetry.Telemetry, log *slog.Logger) (*hub.Hub, error) {
	cfg := hub.Config{Version: daemon.Version(), Logger: log, Artifacts: files}
	s.values(&cfg)
	if seen != nil {
		cfg.MeterProvider, cfg.TracerProvider = seen.MeterProvider(), seen.TracerProvider()
	}

	var err error
	if cfg.EncryptionKeys, err = s.encryptionKeys(log); err != nil {
		return nil, err
	}

	if addr != nil {
		cfg.PublicURL = s.publicURL(addr)
		if cfg.Deployer, err = s.deployer(log); err != nil {
			return nil, err
		}

		if cfg.Gateway, err = s.gateway(cfg.Deployer); err != nil {
			return nil, err
		}

		if cfg.FormerDeployer, err = s.former(log); err != nil {
			return nil, err
		}

		if cfg.StorageID, err = s.storageID(); err != nil {
			return nil, err
		}

		if cfg.Deployer != nil && s.Deployer != deployKubernetes { // which every hub reaches
			cfg.Machine = machine(cfg.StorageID)
		}
	}

	cfg.CheckTool = js.Config{}.NameOf
	cfg.Offline = addr == nil
	cfg.Authenticate = s.authenticate
	cfg.ConsoleForms = true // the token is for the command line
	h, err := hub.New(ctx, cfg)
	return h, s.explainKey(err)
}

// explainKey adds the remedy to the error of an encryption key that is missing.
func (s *Settings) explainKey(err error) error {
	if !errors.Is(err, secret.ErrUnknownKey) {
		return err
	}

	name := "PROVIDER_ENCRYPTION_KEY"
	if s.EncryptionKeys == "" {
		name = filepath.Join(s.DataDir, keyFile)
	}

	return fmt.Errorf("%s has no key that decrypts the secrets of this database: restore the former key, after a new one if there is one: %w", name, err)
}

// report prints that the settings are valid, or returns all errors. It opens and creates nothing.
func (s *Settings) report(stdout io.Writer) error {
	if err := s.check(); err != nil {
		return fmt.Errorf("the settings have errors:\n%w", err)
	}

	_, err := fmt.Fprintln(stdout, "the settings are valid")
	return err
}

// serve serves requests until ctx ends, and then drains. It calls started before the first request,
// and ended with the number of processes of agents that continue without the hub, if there are any.
func (s *Settings) serve(ctx context.Context, log *slog.Logger, started func(*hub.Hub, net.Addr), ended func(running int)) error {
	if err := s.check(); err != nil { // before the port is taken
		return err
	}

	// A public URL with https does not protect the connection from the TLS proxy to this listener.
	if addr, err := net.ResolveTCPAddr("tcp", s.Addr); err == nil && !addr.IP.IsLoopback() {
		log.Warn("passwords and tokens reach this address without encryption: listen on a loopback address, with a TLS proxy on this machine in front",
			"addr", addr.String())
	}

	listener, err := daemon.Listen(ctx, s.Addr)
	if err != nil {
		return err // it contains "listen tcp" and the address
	}

	defer func() { _ = listener.Close() }()          // in case the server was never started
	if _, err := s.encryptionKeys(log); err != nil { // before a directory is created that is perhaps a typo
		return err
	}

	files, err := s.openBlobs(ctx, log)
	if err != nil {
		return err
	}

	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	seen, err := s.drivers.Start(serving, telemetry.Config{
		Service: "agenthost-hub", Version: daemon.Version(), Settings: s.Settings, Addr: s.MetricsAddr, Hosts: s.MetricsHosts, Logger: log,
	})
	if err != nil {
		return errors.Join(err, files.Close())
	}
	defer seen.Shutdown(serving)
	h, err := s.open(ctx, listener.Addr(), files, seen, log)
	if err != nil {
		return errors.Join(err, files.Close())
	}

	server := &httpserve.Server{
		Handler: h, Listener: listener, Log: log,
		Drain: h.Drain, DrainTimeout: s.DrainTimeout,
		Welcome: func() { started(h, listener.Addr()) },
	}
	err = server.Serve(ctx)
	if n, failed := h.RunningAgents(serving); failed != nil {
		log.Warn("count agents that run", "err", failed)
	} else if n > 0 && s.Deployer == deployProcess {
		ended(n)
	}

	return errors.Join(err, h.Close(), files.Close())
}

// setupLink returns the page on which the first admin is created, or "" if a user exists.
func setupLink(h *hub.Hub) string {
	if token := h.SetupToken(); token != "" {
		return h.PublicURL() + "/console/register#setup=" + token
	}

	return ""
}

// welcome prints the address of the hub and, if no user exists, the link and the command with which
// the first admin is created.
func welcome(w io.Writer, h *hub.Hub, addr net.Addr) {
	fmt.Fprintf(w, "agenthost hub %s, listening on http://%s\n", daemon.Version(), addr)
	token := h.SetupToken()
	if token == "" {
		return
	}

	fmt.Fprintf(w, `No user exists. Create the first admin in a browser:

  %[3]s

or with a command, and a password of at least 8 characters:

  curl -H 'Content-Type: application/json' %[1]s/auth/setup \
    -d '{"username": "admin", "password": "...", "setup_token": "%[2]s"}'

`, h.PublicURL(), token, setupLink(h))
}
