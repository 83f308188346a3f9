// Package host hosts agents with everything that a [runtime.Runtime] can have: custom tools in
// workers, MCP servers, sandboxes, and skills and conversations on the disk. A program that serves
// agents uses [New]. Workers of custom tools, and the runtimes of a program that deploys agents as
// processes, are the program itself: it calls [Run] before anything else, in both cases.
//
//	if host.IsChild(os.Args) {
//		err := host.Run(ctx, host.Process{
//			Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Getenv: os.Getenv, Signals: signals,
//			Proxy: http.ProxyFromEnvironment, Logger: logger,
//		})
//		...
//	}
//	driver, err := process.New(process.Config{Dir: dir, Env: env}) // for hub.Config.Deployer
//
// Process.Configure adds tools and models of the program:
//
//	configure := func(cfg *runtime.Config) { cfg.NewModel = newModel }
package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/skill/archive"
	"github.com/seed93082962/agenthost/runtime/tool/confine"
	"github.com/seed93082962/agenthost/runtime/tool/js"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

// Config configures [New].
type Config struct {
	// File has the agents, with paths that are absolute or relative to the current directory.
	// Required.
	File *agent.File

	// StateDir has the downloaded skills and the uploads. Without it, an agent with skill archives is
	// unavailable, and uploads end with the host. Its directories "skills" and "uploads" are hidden.
	StateDir string

	// PrivateDir is the parent of the private directories of MCP servers and sandboxes, to which
	// agents should not be able to write. Required.
	PrivateDir string

	// Sessions stores conversations. It is closed with the host if it is an io.Closer. The
	// directory of [session.Files] is hidden. Defaults to a store in memory.
	Sessions session.Store

	// Home is the home directory of the user.
	Home string

	// Getenv is the environment of the program. Commands and MCP servers have only PATH, HOME, USER,
	// LANG, TZ and TMPDIR of it. Defaults to an empty environment.
	Getenv func(string) string

	// Hidden are further files that commands cannot read and agents cannot change.
	Hidden []string

	// Proxy returns the proxy of a request. Defaults to none.
	Proxy func(*http.Request) (*url.URL, error)

	// Version is that of the program, for clients and MCP servers.
	Version string

	// Logger defaults to none.
	Logger *slog.Logger

	// Configure changes the configuration of the runtime, such as to add tools or models of the
	// program.
	Configure func(*runtime.Config, *mcp.Connector)
}

// Host is a runtime with its dependencies.
type Host struct {
	*runtime.Runtime
	scripts  *js.Host
	sessions session.Store
}

// New returns a host. The caller must call Close.
func New(ctx context.Context, cfg Config) (h *Host, err error) {
	h = &Host{sessions: cfg.Sessions}
	defer func() {
		if err != nil {
			_ = h.Close() // nothing of it is in use
		}
	}()
	file := cfg.File
	cwd, err := filepath.Abs(file.CWD)
	if err != nil {
		return h, fmt.Errorf("find the working directory: %w", err)
	}

	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Hidden, err = cfg.hidden(); err != nil {
		return h, fmt.Errorf("find hidden files: %w", err)
	}

	env := childEnv(cfg.Getenv)
	transport := outbound.Transport()
	transport.Proxy = cfg.Proxy
	client := &http.Client{Transport: transport}
	if h.scripts, err = js.New(js.Config{HTTPClient: client, Logger: cfg.Logger}); err != nil {
		return h, fmt.Errorf("host custom tools: %w", err)
	}

	boxes, err := confine.New(confine.Config{
		CWD: cwd, Dir: cfg.PrivateDir, Home: cfg.Home, Hidden: cfg.Hidden, Limits: file.Sandbox.Limits, Logger: cfg.Logger,
	})
	if err != nil {
		return h, fmt.Errorf("host sandboxes: %w", err)
	}

	servers, err := mcp.New(mcp.Config{
		CWD: cwd, Dir: cfg.PrivateDir, Env: env, HTTPClient: client,
		Name: "agenthost", Version: cfg.Version, Logger: cfg.Logger,
	})
	if err != nil {
		return h, fmt.Errorf("host MCP servers: %w", err)
	}

	settings := runtime.Config{
		AllowUnavailable: true, // the API and the log have the reasons
		Agents:           file.Agents,
		CWD:              cwd,
		HomeDir:          cfg.Home,
		AgentHome:        file.AgentHome,
		ProtectedPaths:   append([]string{servers.PrivateDir(), boxes.PrivateDir()}, cfg.Hidden...),
		ChildEnv:         env,
		Limits:           file.Limits,
		StoreOnRequest:   file.StoreOnRequest,
		HTTPClient:       client,
		LoadTool:         h.scripts.Load,
		LoadSkill:        skillLoader(cfg.StateDir, client),
		OpenMCP:          servers.Open,
		OpenSandbox:      boxes.Open,
		Version:          cfg.Version,
		Logger:           cfg.Logger,
	}
	for _, key := range file.Auth.APIKeys {
		settings.APIKeys = append(settings.APIKeys, string(key))
	}

	if h.sessions != nil {
		settings.Sessions = h.sessions
	}

	if cfg.StateDir != "" {
		settings.UploadDir = uploadDir(cfg.StateDir)
	}

	if cfg.Configure != nil {
		cfg.Configure(&settings, servers)
	}

	h.Runtime, err = runtime.New(ctx, settings)
	return h, err
}

// hidden returns the absolute paths of all hidden files.
func (c *Config) hidden() ([]string, error) {
	paths := slices.Clone(c.Hidden)
	if files, ok := c.Sessions.(*session.Files); ok {
		paths = append(paths, files.Dir())
	}

	if c.StateDir != "" {
		paths = append(paths, skillDir(c.StateDir), uploadDir(c.StateDir))
	}

	var err error
	for i := range paths {
		if paths[i], err = filepath.Abs(paths[i]); err != nil {
			return nil, err
		}
	}

	return paths, nil
}

// Close cancels the remaining runs, and then closes their dependencies.
func (h *Host) Close() error {
	var errs []error
	if h.Runtime != nil {
		errs = append(errs, h.Runtime.Close())
	}

	if h.scripts != nil {
		errs = append(errs, h.scripts.Close())
	}

	if sessions, ok := h.sessions.(io.Closer); ok {
		errs = append(errs, sessions.Close())
	}

	return errors.Join(errs...)
}

func skillDir(state string) string { return filepath.Join(state, "skills") }

func uploadDir(state string) string { return filepath.Join(state, "uploads") }

// skillLoader returns the function that downloads skills to a directory, which is created when an
// agent has an archive.
func skillLoader(dir string, client *http.Client) func(context.Context, agent.SkillArchive) (string, error) {
	open := sync.OnceValues(func() (func(context.Context, agent.SkillArchive) (string, error), error) {
		if dir == "" {
			return nil, errors.New("there is no directory for skills")
		}

		return archive.New(skillDir(dir), client)
	})
	return func(ctx context.Context, def agent.SkillArchive) (string, error) {
		load, err := open()
		if err != nil {
			return "", fmt.Errorf("load skill %s: %w", def.Name, err)
		}

		return load(ctx, def)
	}
}

// inherited names the variables of commands and MCP servers. None of them contains a key.
const inherited = "PATH HOME USER LANG TZ TMPDIR"

// childEnv returns the part of an environment that commands and MCP servers of agents may have.
func childEnv(getenv func(string) string) []string {
	env := []string{}
	if getenv == nil {
		return env
	}

	for name := range strings.FieldsSeq(inherited) {
		if v := getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}

	return env
}
