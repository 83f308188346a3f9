package runtimecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool/confine"
	"github.com/seed93082962/agenthost/runtime/tool/js"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

// host is a runtime with its dependencies.
type host struct {
	*runtime.Runtime
	scripts  *js.Host
	sessions store
}

// newHost creates the runtime of a configuration. sessions and m may be nil.
func (s *settings) newHost(ctx context.Context, file *agent.File, sessions store, m *metrics, log *slog.Logger) (h *host, err error) {
	h = &host{sessions: sessions}
	defer func() {
		if err != nil {
			_ = h.Close() // nothing of it is in use
		}
	}()
	cwd, err := filepath.Abs(file.CWD)
	if err != nil {
		return h, fmt.Errorf("find the working directory: %w", err)
	}
	client := &http.Client{Transport: transport()}
	if h.scripts, err = js.New(js.Config{HTTPClient: client, Logger: log}); err != nil {
		return h, fmt.Errorf("host custom tools: %w", err)
	}
	private := s.privateDir(file, cwd, log)
	boxes, err := confine.New(confine.Config{
		CWD: cwd, Dir: private, Home: s.Home, Hidden: s.hidden(file), Limits: file.Sandbox.Limits, Logger: log,
	})
	if err != nil {
		return h, fmt.Errorf("host sandboxes: %w", err)
	}
	servers, err := mcp.New(mcp.Config{
		CWD: cwd, Dir: private, Env: s.childEnv, HTTPClient: client, ConnectTimeout: file.Limits.MCPConnectTimeout,
		Name: "agenthost", Version: daemon.Version(), Logger: log,
	})
	if err != nil {
		return h, fmt.Errorf("host MCP servers: %w", err)
	}
	cfg := runtime.Config{
		Agents:         file.Agents,
		CWD:            cwd,
		HomeDir:        s.Home,
		AgentHome:      file.AgentHome,
		ProtectedPaths: []string{cmp.Or(s.Config, defaultFile), cmp.Or(s.StateDir, file.StateDir), servers.PrivateDir(), boxes.PrivateDir(), s.KeyFile},
		ChildEnv:       s.childEnv,
		AllowedHosts:   s.allowedHosts(),
		Limits:         file.Limits,
		HTTPClient:     client,
		LoadTool:       h.scripts.Load,
		LoadSkill:      s.skillLoader(file, cwd, client),
		OpenMCP:        servers.Open,
		OpenSandbox:    boxes.Open,
		Version:        daemon.Version(),
		Logger:         log,
	}
	for _, key := range file.Auth.APIKeys {
		cfg.APIKeys = append(cfg.APIKeys, string(key))
	}
	if sessions != nil {
		cfg.Sessions = session.Store(sessions)
	}
	if m != nil {
		cfg.Observe = m.observe
	}
	h.Runtime, err = runtime.New(ctx, cfg)
	return h, err
}

// Close cancels the remaining runs, and then closes their dependencies.
func (h *host) Close() error {
	var errs []error
	if h.Runtime != nil {
		errs = append(errs, h.Runtime.Close())
	}
	if h.scripts != nil {
		errs = append(errs, h.scripts.Close())
	}
	if h.sessions != nil {
		errs = append(errs, h.sessions.Close())
	}
	return errors.Join(errs...)
}

// hidden returns the configuration and the state, which commands do not need.
func (s *settings) hidden(file *agent.File) (paths []string) {
	for _, path := range []string{cmp.Or(s.Config, defaultFile), cmp.Or(s.StateDir, file.StateDir), s.KeyFile} {
		if absolute, err := filepath.Abs(path); err == nil && path != "" {
			paths = append(paths, absolute)
		}
	}
	return paths
}

// transport returns a transport that uses the proxy of the environment.
func transport() *http.Transport {
	t := outbound.Transport()
	t.Proxy = http.ProxyFromEnvironment
	return t
}
