// Package runtime hosts agents. New returns an http.Handler that lists agents, runs them with a
// stream of server-sent events or one JSON response, cancels runs, and reads and deletes stored
// conversations.
// It can be mounted under a prefix with http.StripPrefix.
//
//	rt, err := runtime.New(ctx, runtime.Config{
//		Agents: []agent.Agent{{
//			ID: "helper", Model: "claude-sonnet-4-5",
//			Provider: agent.Provider{Protocol: "anthropic", APIKey: agent.Secret(key)},
//		}},
//	})
//	if err != nil { ... }
//	defer rt.Close()
//	http.Handle("/ai/", http.StripPrefix("/ai", rt))
//
// Such an agent has no access to this machine. [agent.Agent] says which calls of tools
// an agent may make, and [Config].CWD what it may do with files and commands.
//
// The package does not listen, read the environment or handle signals. To shut down, a program
// calls [Runtime.Drain] while it still serves requests, and [Runtime.Close] at the end.
//
// A run has four layers. startRun handles the request and prepares an execution. execute runs the
// agent, records the result and sends it. [engine.Engine.Run] calls the model and the tools
// alternately. The adapters below runtime/model call upstream. Each layer has one function that
// reads from top to bottom. A run is stopped only by cancelling the context of its entry in the
// registry.
package runtime

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/internal/skill"
	"github.com/seed93082962/agenthost/runtime/internal/registry"
	"github.com/seed93082962/agenthost/runtime/internal/upload"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Runtime hosts agents and executes their runs. It is an http.Handler, safe for concurrent use.
type Runtime struct {
	cfg       Config
	agents    []*hosted
	byID      map[string]*hosted
	runs      *registry.Registry
	shell     *httpapi.Shell
	metrics   *metrics
	handler   http.Handler
	keys      atomic.Pointer[[][sha256.Size]byte]
	protocols []*protocol
	crossing  *http.CrossOriginProtection
	client    *http.Client
	dir       *filesafe.Dir // the working directory
	private   string        // the empty directory of a runtime without Config.CWD
	files     *filesafe.Handlers
	protected []string // paths, see protectedPaths
	skills    *skill.Scanner
	uploads   *upload.Store
	servers   []tool.Server
	sandboxes []tool.Confiner

	life       context.Context // ends with Close
	end        context.CancelFunc
	connecting sync.WaitGroup // servers that connect at the start

	started  time.Time
	reserved atomic.Int64 // bytes that all runs together have reserved
}

// New returns a runtime. The caller closes it. An agent that cannot be resolved is unavailable: the
// log has the reason. New fails if no agent is available, unless cfg.AllowUnavailable is set, with
// the reasons. An invalid configuration is an error that lists all faults.
func New(ctx context.Context, cfg Config) (*Runtime, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("make runtime: %w", err)
	}

	rt := &Runtime{
		cfg:  cfg,
		byID: map[string]*hosted{},
		runs: registry.New(registry.Config{
			MaxActive: cfg.Limits.MaxConcurrentRuns, TerminalTTL: cfg.RunTTL, Bus: cfg.Bus, Logger: cfg.Logger,
		}),
		crossing: http.NewCrossOriginProtection(),
		client:   cfg.HTTPClient,
		started:  time.Now(),
	}
	if rt.client == nil {
		rt.client = &http.Client{Transport: outbound.Transport()}
	}

	rt.life, rt.end = context.WithCancel(context.Background())
	rt.keys.Store(digests(cfg.APIKeys))
	err = rt.open(ctx)
	if err == nil {
		rt.metrics, err = rt.newMetrics()
	}

	if err != nil {
		_ = rt.Close() // there are no runs
		return nil, fmt.Errorf("make runtime: %w", err)
	}

	rt.shell = &httpapi.Shell{Logger: cfg.Logger, Fail: rt.fail, Quiet: quiet}
	if cfg.MeterProvider != nil {
		rt.shell.Observe = rt.metrics.observe
	}

	router := rt.shell.Router()
	for _, r := range rt.routes() {
		router.Handle(r.method, r.path, rt.shell.Handle(rt.routed(r)))
	}

	rt.openProtocols()
	rt.handler = rt.shell.Wrap(rt.guard(router))
	return rt, nil
}

// open opens the working directory and resolves the agents.
func (rt *Runtime) open(ctx context.Context) error {
	var err error
	if rt.cfg.CWD == "" {
		if rt.private, err = os.MkdirTemp("", "agenthost-runtime-"); err != nil {
			return fmt.Errorf("make the working directory: %w", err)
		}

		rt.cfg.CWD = rt.private
	}

	rt.protected = protectedPaths(&rt.cfg)
	if rt.dir, err = filesafe.Open(rt.cfg.CWD); err != nil {
		return err
	}

	rt.files = &filesafe.Handlers{Dir: rt.dir, Fail: rt.fail, Reserve: rt.Reserve}
	if rt.skills, err = skill.New(skill.Config{
		HomeDir: rt.cfg.HomeDir, CWD: rt.cfg.CWD, AgentHome: rt.cfg.AgentHome, Logger: rt.cfg.Logger,
	}); err != nil {
		return err
	}

	if rt.uploads, err = upload.New(upload.Config{Dir: rt.cfg.UploadDir, MaxBytes: rt.cfg.Limits.MaxUploadBytes, Logger: rt.cfg.Logger}); err != nil {
		return err
	}

	return rt.host(ctx)
}

// ServeHTTP serves the runtime API.
func (rt *Runtime) ServeHTTP(w http.ResponseWriter, r *http.Request) { rt.handler.ServeHTTP(w, r) }

// Unavailable returns the reason for each agent that is unavailable, by agent id.
func (rt *Runtime) Unavailable() map[string]error {
	faults := map[string]error{}
	for _, h := range rt.agents {
		if h.fault != nil {
			faults[h.id] = h.fault
		}
	}

	return faults
}

// Drain rejects new runs with 503 and waits for the active ones. When ctx ends, it cancels them
// with reason shutdown and waits at most 10 s more. It returns an error if a run is still active
// then.
func (rt *Runtime) Drain(ctx context.Context) error { return rt.runs.Drain(ctx) }

// Close cancels the active runs, waits for them as Drain does, and releases all resources. After
// Close, the handler responds to requests but does not start runs.
func (rt *Runtime) Close() error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	err := rt.runs.Drain(ended)
	for _, p := range rt.protocols {
		if p.closer != nil {
			err = errors.Join(err, p.closer.Close())
		}
	}

	rt.runs.Close()
	if rt.metrics != nil {
		rt.metrics.stop()
	}

	rt.end()
	rt.connecting.Wait()
	var closing sync.WaitGroup
	for _, s := range rt.servers {
		closing.Go(func() {
			if err := s.Close(); err != nil {
				rt.cfg.Logger.Warn("close MCP server", "mcp_server", s.Name(), "err", err)
			}
		})
	}

	closing.Wait()
	for _, box := range rt.sandboxes {
		box.Close()
	}

	if rt.uploads != nil {
		err = errors.Join(err, rt.uploads.Close())
	}

	if rt.dir != nil {
		_ = rt.dir.Close() // read-only
	}

	if rt.private != "" {
		err = errors.Join(err, os.RemoveAll(rt.private))
	}

	if rt.cfg.HTTPClient == nil {
		rt.client.CloseIdleConnections()
	}

	return err
}
