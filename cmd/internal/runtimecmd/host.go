package runtimecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/skill/archive"
	"github.com/seed93082962/agenthost/runtime/tool/confine"
	"github.com/seed93082962/agenthost/runtime/tool/js"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

// host is a runtime with its dependencies.
type host struct {
	*runtime.Runtime
	scripts  *js.Host
	sessions store
	examined examined
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
		CWD: cwd, Dir: private, Env: s.childEnv, HTTPClient: client,
		Name: "agenthost", Version: daemon.Version(), Logger: log,
	})
	if err != nil {
		return h, fmt.Errorf("host MCP servers: %w", err)
	}
	cfg := runtime.Config{
		AllowUnavailable: true, // the API and the log have the reasons
		Agents:           file.Agents,
		CWD:              cwd,
		HomeDir:          s.Home,
		AgentHome:        file.AgentHome,
		ProtectedPaths:   append([]string{cmp.Or(s.Config, defaultFile), cmp.Or(s.StateDir, file.StateDir), servers.PrivateDir(), boxes.PrivateDir()}, s.secretFiles...),
		ChildEnv:         s.childEnv,
		AllowedHosts:     s.allowedHosts(),
		Limits:           file.Limits,
		HTTPClient:       client,
		LoadTool:         h.scripts.Load,
		LoadSkill:        s.skillLoader(file, cwd, client),
		OpenMCP:          servers.Open,
		OpenSandbox:      boxes.Open,
		Version:          daemon.Version(),
		Logger:           log,
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
	if s.Check {
		h.examined.loaded(&cfg, servers)
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

// hidden returns the configuration, the state and the files of secrets, which commands do not need.
func (s *settings) hidden(file *agent.File) (paths []string) {
	for _, path := range append([]string{cmp.Or(s.Config, defaultFile), cmp.Or(s.StateDir, file.StateDir)}, s.secretFiles...) {
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

// store is a session store with Close.
type store interface {
	session.Store
	Close() error
}

// memory is a store without resources to release.
type memory struct{ *session.Memory }

func (memory) Close() error { return nil }

// noStateError is the reason why there is no state directory.
type noStateError string

func (e noStateError) Error() string { return string(e) + "; set AGENT_STATE_DIR" }

// stateDir returns the directory of sessions and downloaded skills, and whether it was configured.
// It fails with a noStateError if the system has none that agents cannot read.
func (s *settings) stateDir(file *agent.File, cwd string) (dir string, named bool, err error) {
	dir = cmp.Or(s.StateDir, file.StateDir)
	named = dir != ""
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
func (s *settings) openSessions(file *agent.File, log *slog.Logger) (store, error) {
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

// skillLoader returns the function that downloads skills to the state directory, which is created
// when an agent has an archive.
func (s *settings) skillLoader(file *agent.File, cwd string, client *http.Client) func(context.Context, agent.SkillArchive) (string, error) {
	open := sync.OnceValues(func() (*archive.Store, error) {
		dir, _, err := s.stateDir(file, cwd)
		if err != nil {
			return nil, err
		}
		return archive.New(archive.Config{Dir: filepath.Join(dir, "skills"), HTTPClient: client})
	})
	return func(ctx context.Context, def agent.SkillArchive) (string, error) {
		skills, err := open()
		if err != nil {
			return "", fmt.Errorf("load skill %s: %w", def.Name, err)
		}
		return skills.Load(ctx, def)
	}
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
