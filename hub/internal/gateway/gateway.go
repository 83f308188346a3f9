// Package gateway forwards requests to the runtimes of deployed agents: everything under /runtime
// with the API key of the deployment, and for callers of the hub the detail and the files of an
// agent.
//
//	service, err := gateway.New(gateway.Config{
//		Store: store, Target: deployments.Target, Authorize: deployments.Authorize, Tenant: "default",
//	})
//	if err != nil { ... }
//	handler, err := api.New(api.Config{...}, service.Routes()...)
//
// Without the key of a deployment, all names under /runtime have one response, 401, and no work
// depends on them.
//
// Streams are not buffered. A client that disconnects ends the request to the runtime, and a
// client that reads nothing for 30 s is disconnected. A runtime is not trusted: it receives no
// credential of the hub, and its redirects, protocol upgrades, informational responses, trailers
// and headers other than those of its API do not reach a client. Its headers have at most 64 KiB.
// Under /runtime, its bodies are not parsed: the tokens of runs are in a trailer. A browser
// displays its pages in a sandbox. A shared cache stores no response. The detail, listings and
// errors, which pages of the hub display, are decoded and encoded again: members without a type of
// the hub are dropped. A detail has at most 1 MiB, an entry of a listing 64 KiB, and a listing
// 2,097,152 entries. The content of a file is forwarded.
//
// A run at /runtime is counted before its client has the complete response: the last bytes of JSON,
// or the event done of a stream. They are delayed by up to 10 s if the database is unavailable, and
// by up to 5 s if the runtime does not end a stream after the event done.
// The budget of the agent is checked before the last byte of the request is forwarded, because a
// runtime decides when it begins a run. Until then, a request holds no reserve of the budget. A
// client must send the body within a minute, and a deployment has at most 128 requests that are not
// complete.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/outbound"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/rbac"
)

// Target is the runtime of a deployment.
type Target struct {
	URL     string // base URL, without a trailing slash
	AgentID string // the agent in the runtime
	APIKey  string // of the deployment
	Key     string // of the deployment
}

// Config configures [New].
type Config struct {
	// Target returns the runtime of an agent: wire.NotFound if the tenant has no such agent,
	// code.AgentNotDeployed if it has no running deployment. It is called for each request.
	// Required.
	Target func(ctx context.Context, tenantID, agent string) (Target, error)

	// Authorize returns the runtime of an agent whose deployment has the API key, and otherwise
	// fails with wire.Unauthenticated, in a time that does not depend on the agent. Required.
	Authorize func(ctx context.Context, tenantID, agent, apiKey string) (Target, error)

	// Draining returns the URLs of the other runtimes of a deployment, in which runs of former
	// revisions continue. A cancel of a run that the target does not know is forwarded to them.
	// Defaults to none.
	Draining func(ctx context.Context, target Target) ([]string, error)

	// Enabled reports whether an agent is enabled, or fails with wire.NotFound. A disabled agent has
	// no detail. Defaults to true for every agent.
	Enabled func(ctx context.Context, caller api.Caller, agent string) (bool, error)

	// Store has the audit log, which gets a record of each read of a file. If it fails, the read
	// fails. Responses that end early are logged at debug level. Required.
	Store *store.Store

	// Usage counts the tokens of runs at /runtime, and limits them. Defaults to none.
	Usage *usage.Service

	// Tenant is the tenant of the paths /runtime/<agent>/. If it is empty, the paths are
	// /runtime/<organization>/<agent>/.
	Tenant string

	// Transport sends the requests. Defaults to that of internal/outbound.
	Transport http.RoundTripper
}

// Service forwards requests. It is safe for concurrent use.
type Service struct {
	cfg     Config
	proxy   *httputil.ReverseProxy
	cancels places
	bodies  places // of requests that begin runs
	runs    runs
	errors  metric.Int64Counter
}

const (
	patience = 30 * time.Second // until the headers of a detail or a file
	maxPath  = 1024             // bytes of a path in the audit log
)

// New returns a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Target == nil || cfg.Authorize == nil {
		return nil, errors.New("create gateway: Store, Target and Authorize are required")
	}

	if cfg.Draining == nil {
		cfg.Draining = func(context.Context, Target) ([]string, error) { return nil, nil }
	}

	if cfg.Enabled == nil {
		cfg.Enabled = func(context.Context, api.Caller, string) (bool, error) { return true, nil }
	}

	if cfg.Transport == nil {
		transport := outbound.Transport()
		transport.ReadBufferSize = runvalue.MaxTrailer
		cfg.Transport = transport
	}

	cfg.Transport = outbound.Traced(cfg.Transport)
	failures, err := newMetrics(cfg.Store.MeterProvider)
	if err != nil {
		return nil, fmt.Errorf("create gateway: %w", err)
	}

	return &Service{
		cfg: cfg, proxy: newProxy(cfg), cancels: places{shares: map[caller]*share{}}, bodies: places{shares: map[caller]*share{}},
		runs:   runs{open: map[*directRun]bool{}},
		errors: failures,
	}, nil
}

// readFileDetail is the detail of a read file.
type readFileDetail struct {
	Path string `json:"path"` // relative to the working directory of the runtime
}

var actionReadFile = auditlog.Define[readFileDetail]("agent.read_file")

// Detail returns the runtime of an enabled agent, whose detail every role may read.
func (s *Service) Detail(ctx context.Context, caller api.Caller, agent string) (Target, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return Target{}, err
	}

	enabled, err := s.cfg.Enabled(ctx, caller, agent)
	if err == nil && !enabled {
		err = wire.NotFound
	}

	if err != nil {
		return Target{}, err
	}

	return s.cfg.Target(ctx, caller.TenantID, agent)
}

// Target returns the runtime of an agent, whose list of files every role may read.
func (s *Service) Target(ctx context.Context, caller api.Caller, agent string) (Target, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return Target{}, err
	}

	if _, err := s.cfg.Enabled(ctx, caller, agent); err != nil {
		return Target{}, err
	}

	return s.cfg.Target(ctx, caller.TenantID, agent)
}

// File returns the runtime whose file the caller may read, and records the read.
func (s *Service) File(ctx context.Context, caller api.Caller, agent, path string) (Target, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return Target{}, err
	}

	target, err := s.cfg.Target(ctx, caller.TenantID, agent)
	if err != nil {
		return Target{}, err
	}

	event := caller.Event()
	event.TargetType, event.TargetID, event.TargetName = "agent", agent, agent
	detail := readFileDetail{api.Plain(strings.ToValidUTF8(excerpt.Head(path, maxPath), ""))}
	return target, s.cfg.Store.Append(ctx, actionReadFile.Record(event, detail))
}
