package runtimecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/host"
	"github.com/seed93082962/agenthost/runtime/protocol/openai"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

// served is what a runtime needs only to serve requests. Each field may be nil.
type served struct {
	sessions sessions
	observed telemetry.Telemetry
	bus      run.Bus
}

// newHost creates the runtime of a configuration. x may be nil.
func (s *settings) newHost(ctx context.Context, file *agent.File, with served, x *examined, log *slog.Logger) (*host.Host, error) {
	cwd, err := filepath.Abs(file.CWD)
	if err != nil {
		if with.sessions != nil {
			_ = with.sessions.Close() // it contains no sessions
		}

		return nil, fmt.Errorf("find the working directory: %w", err)
	}

	state, _, noState := s.stateDir(file, cwd)
	return host.New(ctx, host.Config{
		File: file, StateDir: state, PrivateDir: s.privateDir(file, cwd, log), Sessions: with.sessions,
		Home: s.Home, Getenv: s.getenv, Hidden: s.hidden(file), Proxy: http.ProxyFromEnvironment, Version: daemon.Version(), Logger: log,
		Configure: func(c *runtime.Config, servers *mcp.Connector) {
			c.AllowedHosts = s.Hosts
			serveProtocols(c, log)
			if noState != nil {
				c.LoadSkill = func(_ context.Context, def agent.SkillArchive) (string, error) {
					return "", fmt.Errorf("load skill %s: %w", def.Name, noState)
				}
			}

			c.Bus = with.bus
			if with.observed != nil {
				observe(c, with.observed, &s.Settings)
			}

			if x != nil {
				x.loaded(c, servers)
			}
		},
	})
}

// serveProtocols sets the further protocols of a runtime.
func serveProtocols(c *runtime.Config, log *slog.Logger) {
	c.Protocols = map[string]func(*runtime.Runtime) http.Handler{
		"/openai/v1": func(rt *runtime.Runtime) http.Handler {
			return openai.New(openai.Config{Host: rt, MaxBytes: c.Limits.WithDefaults().MaxMessageBytes, Logger: log})
		},
	}
}

// observe sets the telemetry of a runtime.
func observe(c *runtime.Config, t telemetry.Telemetry, s *telemetry.Settings) {
	c.MeterProvider, c.TracerProvider, c.TraceContent = t.MeterProvider(), t.TracerProvider(), s.CaptureContent
}

// hidden returns the configuration, the state and the files of secrets, which commands do not need.
func (s *settings) hidden(file *agent.File) []string {
	var paths []string
	for _, path := range append([]string{cmp.Or(s.Config, defaultFile), cmp.Or(s.StateDir, file.StateDir)}, s.Secrets...) {
		if absolute, err := filepath.Abs(path); err == nil && path != "" {
			paths = append(paths, absolute)
		}
	}

	return paths
}

// memory is a store without resources to release.
// sessions is a session store with resources to release.
type sessions interface {
	session.Store
	io.Closer
}

// memory is a store without resources.
type memory struct{ session.Store }

func (memory) Close() error { return nil }

// noStateError is the reason why there is no state directory.
type noStateError string

func (e noStateError) Error() string { return string(e) + "; set AGENT_STATE_DIR" }

// stateDir returns the directory of sessions, uploads and downloaded skills, and whether it was
// configured. It fails with a noStateError if the system has none that agents cannot read.
func (s *settings) stateDir(file *agent.File, cwd string) (string, bool, error) {
	dir := cmp.Or(s.StateDir, file.StateDir)
	named := dir != ""
	switch {
	case named:
	case s.XDGState != "" && filepath.IsAbs(s.XDGState):
		dir = filepath.Join(s.XDGState, "agenthost")
	case s.LocalAppData != "":
		dir = filepath.Join(s.LocalAppData, "agenthost", "state")
	case s.Home != "":
		dir = filepath.Join(s.Home, ".local", "state", "agenthost")
	default:
		return "", false, noStateError("there is no home directory")
	}

	var err error
	if dir, err = filepath.Abs(dir); err != nil {
		return "", named, fmt.Errorf("find the state directory: %w", err)
	}

	if !named && below(cwd, dir) {
		return "", false, noStateError("the state directory would be in the working directory, where agents and the files interface read it")
	}

	return dir, named, nil
}

// openSessions opens the store in the state directory. If there is none, sessions end with the
// process, and a warning is logged.
func (s *settings) openSessions(file *agent.File, log *slog.Logger) (sessions, error) {
	limits := file.Limits.WithDefaults()
	cwd, err := filepath.Abs(file.CWD)
	if err != nil {
		return nil, fmt.Errorf("find the working directory: %w", err)
	}

	dir, named, err := s.stateDir(file, cwd)
	if reason, none := errors.AsType[noStateError](err); none {
		log.Warn("sessions are stored in memory and end with the process", "err", reason)
		return memory{session.NewMemory(session.MemoryConfig{TTL: limits.SessionTTL})}, nil
	}

	if err != nil {
		return nil, err
	}

	if named && below(cwd, dir) {
		log.Warn("the state directory is in the working directory: agents and the files interface can read all sessions", "dir", dir)
	}

	return session.NewFiles(session.FilesConfig{Dir: dir, CWD: cwd, TTL: limits.SessionTTL, Logger: log})
}

// privateDir returns the parent of the private directories of MCP servers and sandboxes: below the
// state directory, else that of temporary files. Agents should not be able to write to it.
func (s *settings) privateDir(file *agent.File, cwd string, log *slog.Logger) string {
	dir, _, err := s.stateDir(file, cwd)
	if err == nil && !below(cwd, dir) {
		return filepath.Join(dir, "private")
	}

	if below(cwd, os.TempDir()) {
		log.Warn("MCP servers start below the working directory, where agents may be able to change what they run, and commands are not confined; set AGENT_STATE_DIR")
	}

	return os.TempDir()
}

// below reports whether path is dir or below it, with links resolved as far as they exist.
func below(dir, path string) bool {
	rel, err := filepath.Rel(resolved(dir), resolved(path))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// resolved resolves the links of the existing part of a path.
func resolved(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}

	parent := filepath.Dir(path)
	if parent == path {
		return path
	}

	return filepath.Join(resolved(parent), filepath.Base(path))
}
