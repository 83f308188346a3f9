// Package confine opens the sandboxes of agents, for the Config of package runtime: it connects
// their definitions to package sandbox, which confines processes on Linux.
//
//	boxes, err := confine.New(confine.Config{CWD: dir, Dir: state, Home: home})
//	...
//	rt, err := runtime.New(ctx, runtime.Config{CWD: dir, OpenSandbox: boxes.Open})
//
// A program that imports the package also imports the launcher of confined processes: see package
// sandbox.
package confine

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/privatedir"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/internal/sandbox"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Config is the configuration of all sandboxes of an Opener.
type Config struct {
	// CWD is the working directory of the agents, which their commands may change. Required,
	// absolute.
	CWD string

	// Dir is the parent of the private directories of sandboxes. It is created if it is missing. If
	// it is inside CWD, nothing is confined. Defaults to os.TempDir().
	Dir string

	// Home is the home directory of the user, which no default makes readable.
	Home string

	// Hidden are files and directories that no default makes readable, although they are inside a
	// directory of the system or of PATH, such as the configuration. All are absolute.
	Hidden []string

	// Limits of one process with its descendants. Default to those of package sandbox.
	Limits agent.SandboxLimits

	// Logger defaults to one that discards everything.
	Logger *slog.Logger
}

// Opener opens sandboxes. It is safe for concurrent use and needs no Close.
type Opener struct {
	cfg  Config
	dirs *privatedir.Set
}

// New returns an opener.
func New(cfg Config) (*Opener, error) {
	if !filepath.IsAbs(cfg.CWD) {
		return nil, errors.New("confine: CWD is not absolute")
	}

	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}

	dir, err := filepath.Abs(cmp.Or(cfg.Dir, os.TempDir()))
	if err != nil {
		return nil, fmt.Errorf("confine: find the directory of sandboxes: %w", err)
	}

	return &Opener{cfg, privatedir.New(dir, "agenthost-sandbox-", cfg.Logger)}, nil
}

// PrivateDir returns the parent of the private directories. It exists while a sandbox is open.
func (o *Opener) PrivateDir() string { return o.dirs.Path() }

// Open opens a sandbox with absolute paths, for processes with the environment env. In the working
// directory, the protected paths and the names that package permission protects are read-only. The
// state says what the system enforces. The sandbox is nil if that is nothing.
func (o *Opener) Open(policy agent.Sandbox, protected, env []string) (tool.Confiner, wire.SandboxStatus, error) {
	state := wire.SandboxStatus{Mode: policy.Mode}
	note := ""
	if rel, err := filepath.Rel(o.cfg.CWD, o.dirs.Path()); err == nil && filepath.IsLocal(rel) {
		state.Reason = "the working directory contains the directory of temporary files"
		return nil, state, nil
	}

	if repository := o.repository(env); repository != "" {
		policy.Read = append(slices.Clone(policy.Read), repository)
		note = " The repository of the working directory is " + repository + ", which can be read: to change it, an operator adds it to sandbox.write."
	}

	private, err := o.dirs.Create()
	if err != nil {
		return nil, state, fmt.Errorf("open sandbox: %w", err)
	}

	l := o.cfg.Limits
	s, err := sandbox.New(sandbox.Policy{
		Dir: o.cfg.CWD, Private: private, Home: o.cfg.Home, Hidden: o.cfg.Hidden, Read: policy.Read, Write: policy.Write, Path: path(env),
		Protects: permission.ProtectedName, Protected: protected,
		Network: sandbox.Network(policy.Network), Domains: policy.Domains,
		Limits: sandbox.Limits{
			AddressSpace: uint64(l.MaxAddressSpaceBytes), FileSize: uint64(l.MaxFileBytes), // not negative
			OpenFiles: uint64(l.MaxOpenFiles), Processes: uint64(l.MaxProcesses), Memory: uint64(l.MaxMemoryBytes), // not negative
		},
	})
	if err != nil {
		o.dirs.Delete(private)
		return nil, state, fmt.Errorf("open sandbox: %w", err)
	}

	b := &box{s: s, dirs: o.dirs, private: private, summary: summary(policy) + note}
	support := s.Support()
	state.Files = support.Files
	if support.Files && !support.Isolated {
		state.Mode = runvalue.SandboxPartial
	}

	state.Network = support.Network && policy.Network != agentvalue.NetworkAll
	state.Reason = support.Reason
	if policy.Network == agentvalue.NetworkAll {
		state.Reason = strings.TrimPrefix(state.Reason+"; the network is all", "; ")
	}

	if !state.Files && !state.Network {
		b.Close()
		return nil, state, nil
	}

	return b, state, nil
}

// path returns the value of PATH in an environment.
func path(env []string) string {
	for _, variable := range slices.Backward(env) {
		if value, found := strings.CutPrefix(variable, "PATH="); found {
			return value
		}
	}

	return ""
}

// summary returns the sentence of a policy.
func summary(policy agent.Sandbox) string {
	network := "connects through an HTTP proxy to public hosts"
	switch {
	case policy.Network == agentvalue.NetworkNone:
		network = "has no network"
	case policy.Network == agentvalue.NetworkAll:
		network = "has the network of the host"
	case len(policy.Domains) > 0:
		network = "connects through an HTTP proxy to the hosts in sandbox.domains"
	}

	return "The command runs in a sandbox: it reads the files of the system and of the programs on PATH, changes only the working directory, $HOME and $TMPDIR, and " +
		network + ". In the working directory, existing names that begin with a dot are read-only. An operator permits more with sandbox.read, sandbox.write, sandbox.network and sandbox.domains of the agent."
}

// box is an open sandbox with its private directory.
type box struct {
	s       *sandbox.Enforcer
	dirs    *privatedir.Set
	private string
	summary string
}

func (b *box) Start(cmd *exec.Cmd, start func() error) (func() []string, error) {
	command, err := b.s.Confine(cmd)
	if err != nil {
		return nil, err
	}
	defer command.Started()
	return command.Denied, start()
}

func (b *box) Home() string { return filepath.Join(b.private, "home") }

func (b *box) Summary() string { return b.summary }

func (b *box) Close() {
	b.s.Close()
	b.dirs.Delete(b.private)
}
