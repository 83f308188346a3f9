// Package runtime hosts agents: New makes an http.Handler that lists them, runs them as a stream
// of server-sent events or as one JSON answer, and cancels runs. It mounts anywhere, also
// under a prefix with http.StripPrefix.
//
//	rt, err := runtime.New(ctx, runtime.Config{
//		Agents: []agent.Agent{{
//			ID: "helper", Model: "claude-sonnet-4-5",
//			Provider: agent.Provider{Protocol: "anthropic", APIKey: key},
//		}},
//	})
//	if err != nil { ... }
//	defer rt.Close()
//	http.Handle("/ai/", http.StripPrefix("/ai", rt))
//
// The package opens no listener, reads no environment and handles no signals. A program that
// goes down calls [Runtime.Drain] first, while it still serves, and [Runtime.Close] last.
package runtime

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/filesafe"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/skill"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Runtime hosts agents and executes their runs. It is an http.Handler, safe for concurrent use.
type Runtime struct {
	cfg      Config
	agents   []*hosted
	byID     map[string]*hosted
	runs     *run.Registry
	shell    *httpapi.Shell
	handler  http.Handler
	keys     [][sha256.Size]byte
	crossing *http.CrossOriginProtection
	client   *http.Client
	dir      *filesafe.Dir // the working directory
	files    *filesafe.API
	skills   *skill.Scanner
	servers  []tool.Server
	started  time.Time
}

// New makes a runtime, which its owner closes. An agent that cannot be resolved is unavailable, and the log says why; a
// configuration that makes no sense is an error that tells all of its faults.
func New(ctx context.Context, cfg Config) (*Runtime, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("make runtime: %w", err)
	}
	rt := &Runtime{
		cfg:      cfg,
		byID:     map[string]*hosted{},
		runs:     run.New(run.Config{MaxActive: cfg.Limits.MaxConcurrentRuns, TerminalTTL: cfg.RunTTL}),
		keys:     digests(cfg.APIKeys),
		crossing: http.NewCrossOriginProtection(),
		client:   cfg.HTTPClient,
		started:  time.Now(),
	}
	if rt.client == nil {
		rt.client = &http.Client{Transport: outbound.Transport()}
	}
	rt.shell = &httpapi.Shell{Logger: cfg.Logger, Fail: rt.fail, Quiet: quiet}
	if err := rt.open(ctx); err != nil {
		_ = rt.Close() // there are no runs to wait for
		return nil, fmt.Errorf("make runtime: %w", err)
	}
	router := rt.shell.Router()
	for _, r := range rt.routes() {
		router.Handle(r.method, r.path, rt.shell.Handle(r.handler))
	}
	rt.handler = rt.shell.Wrap(rt.guard(router))
	return rt, nil
}

// open opens the working directory, and hosts the agents that work in it.
func (rt *Runtime) open(ctx context.Context) error {
	var err error
	if rt.dir, err = filesafe.Open(rt.cfg.CWD); err != nil {
		return err
	}
	rt.files = &filesafe.API{Dir: rt.dir, Fail: rt.fail}
	if rt.skills, err = skill.New(skill.Config{
		HomeDir: rt.cfg.HomeDir, CWD: rt.cfg.CWD, AgentHome: rt.cfg.AgentHome, Logger: rt.cfg.Logger,
	}); err != nil {
		return err
	}
	return rt.host(ctx)
}

// ServeHTTP serves the runtime API.
func (rt *Runtime) ServeHTTP(w http.ResponseWriter, r *http.Request) { rt.handler.ServeHTTP(w, r) }

// Unavailable says of each agent that cannot be called why not, by its id.
func (rt *Runtime) Unavailable() map[string]error {
	faults := map[string]error{}
	for _, h := range rt.agents {
		if h.fault != nil {
			faults[h.id] = h.fault
		}
	}
	return faults
}

// Drain refuses new runs with 503 from now on and waits for those in flight. When ctx ends they
// are cancelled with reason shutdown, and get 10 s to end. An error says that some did not.
func (rt *Runtime) Drain(ctx context.Context) error { return rt.runs.Drain(ctx) }

// Close cancels what is still running, waits for it as Drain does, and lets go of everything. Requests
// are answered afterwards, but no run starts any more.
func (rt *Runtime) Close() error {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	err := rt.runs.Drain(over)
	var closing sync.WaitGroup
	for _, s := range rt.servers {
		closing.Go(func() {
			if err := s.Close(); err != nil {
				rt.cfg.Logger.Warn("close MCP server", "server", s.Name(), "err", err)
			}
		})
	}
	closing.Wait()
	if rt.dir != nil {
		_ = rt.dir.Close() // it was only read
	}
	if rt.cfg.HTTPClient == nil {
		rt.client.CloseIdleConnections()
	}
	return err
}
