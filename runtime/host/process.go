package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/httpserve"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool/js"
	"github.com/seed93082962/agenthost/runtime/tool/js/worker"
	"github.com/seed93082962/agenthost/runtime/tool/mcp"
)

// Process is what [Run] needs of the process. All fields except Signals, Hidden, Proxy, Version,
// Logger and Configure are required.
type Process struct {
	Args   []string            // os.Args
	Stdin  io.Reader           // os.Stdin
	Stdout io.Writer           // os.Stdout
	Getenv func(string) string // os.Getenv

	// Signals has the signals that request the process to end: the first one begins to drain, the
	// second one cancels the remaining runs. A deployer sends
	// SIGTERM. Required, unless ctx ends with it.
	Signals <-chan os.Signal

	// Hidden, Proxy, Version and Logger are those of [Config].
	Hidden  []string
	Proxy   func(*http.Request) (*url.URL, error)
	Version string
	Logger  *slog.Logger

	// Configure changes the configuration of the runtime, such as to add tools or models of the
	// program. Defaults to none.
	Configure func(*runtime.Config)
}

// IsChild reports whether the arguments of a process, os.Args, are those with which a deployer
// starts the runtime of a deployment, or a runtime a worker for custom tools.
func IsChild(args []string) bool {
	return len(args) == 2 && (args[1] == agentvalue.DeployedArg || args[1] == js.WorkerArg)
}

// Run does the work of a child, and returns when it has ended. The end of ctx has the effect of the
// first signal: the runs may continue until the time limit of a run.
func Run(ctx context.Context, p Process) error {
	if !IsChild(p.Args) {
		return errors.New("run child: the arguments are not those of a child")
	}

	if p.Args[1] == js.WorkerArg {
		return worker.Run(p.Stdin, p.Stdout)
	}

	p.Logger = cmp.Or(p.Logger, slog.New(slog.DiscardHandler))
	if p.Signals == nil && ctx.Done() == nil {
		return errors.New("run child: neither signals nor the context would end it")
	}

	return p.serve(ctx)
}

// serve serves the agent of a deployment, which must be ready, and then drains. A signal or the end
// of ctx also ends a start that is not complete.
func (p Process) serve(ctx context.Context) error {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	first, _ := httpserve.Signals(life, p.Signals)
	first, drain := context.WithCancel(first)
	defer drain()
	defer context.AfterFunc(ctx, drain)()
	if err := protect(); err != nil {
		p.Logger.Warn("protect the memory of the runtime", "err", err)
	}

	if err := awaitLine(p.Stdin); err != nil {
		return err
	}

	listener, err := inherit(agentvalue.DeployedListener)
	if err != nil {
		return err
	}

	defer func() { _ = listener.Close() }() // the server closes it if it was started
	file, list, err := p.read()
	if err != nil {
		return p.noted(err)
	}

	sessions, err := session.NewFiles(session.FilesConfig{Dir: file.StateDir, CWD: file.CWD, TTL: file.Limits.WithDefaults().SessionTTL, Logger: p.Logger})
	if err != nil {
		return err
	}

	cfg := Config{
		File: file, StateDir: file.StateDir, PrivateDir: filepath.Join(file.StateDir, "private"), Sessions: sessions,
		Hidden: slices.Clone(p.Hidden), Home: p.Getenv("HOME"), Getenv: p.Getenv, Proxy: p.Proxy, Version: p.Version, Logger: p.Logger,
	}
	for _, path := range []string{agentvalue.DeployedFile, agentvalue.DeployedKeys, file.StateDir} {
		if path, err = filepath.Abs(path); err != nil {
			return errors.Join(err, sessions.Close())
		}

		cfg.Hidden = append(cfg.Hidden, path)
	}

	if p.Configure != nil {
		cfg.Configure = func(c *runtime.Config, _ *mcp.Connector) { p.Configure(c) }
	}

	h, err := New(first, cfg)
	if err != nil {
		return err
	}

	return errors.Join(p.serveHost(first, h, file, list, listener), h.Close())
}

// serveHost serves until ctx ends.
func (p Process) serveHost(ctx context.Context, h *Host, file *agent.File, list string, listener net.Listener) error {
	if err := unavailable(file, h.Unavailable()); err != nil {
		return p.noted(err)
	}

	serving, stop := context.WithCancel(context.WithoutCancel(ctx)) // also while it drains
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	following.Go(func() { h.FollowKeys(serving, agentvalue.DeployedKeys, list, p.Logger) })
	limits := file.Limits.Of(file.Agents[0].Limits).WithDefaults()
	p.Logger.Info("serving", "addr", listener.Addr().String())
	server := &httpserve.Server{Handler: h, Listener: listener, Log: p.Logger, Drain: h.Drain, DrainTimeout: limits.RunTimeout}
	return server.Serve(ctx)
}

// noted logs that another start would end with the same error.
func (p Process) noted(err error) error {
	var file interface{ FileFault() string } // of a tool
	if _, unusable := errors.AsType[agentvalue.Unusable](err); unusable || errors.As(err, &file) {
		p.Logger.Warn(agentvalue.UnusableMessage)
	}

	return err
}

// read returns the configuration with the API keys, and their list.
func (p Process) read() (*agent.File, string, error) {
	data, err := os.ReadFile(agentvalue.DeployedFile)
	if err != nil {
		return nil, "", fmt.Errorf("read configuration: %w", err)
	}

	file, err := agent.Parse(agentvalue.DeployedFile, data, nil)
	if err != nil {
		return nil, "", agentvalue.Unusable("read configuration:\n" + err.Error())
	}

	if len(file.Agents) != 1 || file.StateDir == "" || file.CWD == "" {
		return nil, "", errors.New("read configuration: it is not that of a deployment")
	}

	list, err := agentvalue.ReadKeys(agentvalue.DeployedKeys)
	if err == nil {
		err = file.Auth.SetKeys(list)
	}

	return file, list, err
}

// awaitLine waits for a line on standard input. A deployer that ends before it has recorded the
// process sends none, and the process ends too.
func awaitLine(stdin io.Reader) error {
	var b [1]byte
	for {
		n, err := stdin.Read(b[:])
		switch {
		case n == 1 && b[0] == '\n':
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("standard input ended before it had a line")
		case err != nil:
			return fmt.Errorf("read standard input: %w", err)
		}
	}
}

// inherit returns the listener with a file descriptor.
func inherit(descriptor uintptr) (net.Listener, error) {
	f := os.NewFile(descriptor, "listener")
	if f == nil {
		return nil, fmt.Errorf("use inherited listener: %d is not a file", descriptor)
	}

	defer func() { _ = f.Close() }() // the listener has a copy, which child processes do not inherit
	listener, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("use inherited listener: %w", err)
	}

	return listener, nil
}

// unavailable returns the reasons of unavailable agents as one error, or nil.
func unavailable(file *agent.File, reasons map[string]error) error {
	var errs []error
	for i := range file.Agents {
		if id := file.Agents[i].ID; reasons[id] != nil {
			errs = append(errs, fmt.Errorf("agent %s is unavailable: %w", id, reasons[id]))
		}
	}

	return errors.Join(errs...)
}
