// Package gateway forwards requests to the runtimes of deployed agents: everything under /runtime
// with the API key of the deployment, and for callers of the hub the detail and the files of an
// agent.
//
//	service, err := gateway.New(gateway.Config{
//		Target: deployments.Target, Authorize: deployments.Authorize, Audit: audit, Tenant: "default",
//	})
//	if err != nil { ... }
//	handler, err := api.New(api.Config{...}, service.Routes()...)
//
// Without the key of a deployment, all names under /runtime have one response, 401, and no work
// depends on them.
//
// Streams are not buffered. A client that disconnects ends the request to the runtime, and a client
// that reads nothing for 30 s is disconnected. A runtime is not trusted: it receives no credential
// of the hub, and its redirects, protocol upgrades, informational responses, trailers and headers
// other than those of its API do not reach a client. Its headers have at most 64 KiB, and its
// bodies are not parsed. A browser displays its pages in a sandbox. A shared cache stores no
// response.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"slices"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/internal/outbound"
)

// Target is the runtime of a deployment.
type Target struct {
	URL     string // base URL, without a trailing slash
	AgentID string // the agent in the runtime
	APIKey  string // of the deployment
}

// Audit records who read a file.
type Audit interface {
	Append(ctx context.Context, records ...auditlog.Record) error
}

// Config configures [New].
type Config struct {
	// Target returns the runtime of an agent: api.NotFound if the tenant has no such agent,
	// api.AgentNotDeployed if it has no running deployment. It is called for each request.
	// Required.
	Target func(ctx context.Context, tenantID, agent string) (Target, error)

	// Authorize returns the runtime of an agent whose deployment has the API key, and otherwise
	// fails with api.Unauthenticated, in a time that does not depend on the agent. Required.
	Authorize func(ctx context.Context, tenantID, agent, apiKey string) (Target, error)

	// Audit receives a record for each read of a file. If it fails, the read fails. Required.
	Audit Audit

	// Tenant is the tenant of the paths /runtime/<agent>/. If it is empty, the paths are
	// /runtime/<organization>/<agent>/.
	Tenant string

	// Transport sends the requests. Defaults to that of internal/outbound.
	Transport http.RoundTripper

	// Logger receives responses that end early, at debug level. Defaults to none.
	Logger *slog.Logger
}

// Service forwards requests. It is safe for concurrent use.
type Service struct {
	cfg   Config
	proxy *httputil.ReverseProxy
}

// maxHeader bounds the headers of a response, in bytes.
const maxHeader = 64 << 10

// New returns a Service.
func New(cfg Config) (*Service, error) {
	if cfg.Target == nil || cfg.Authorize == nil || cfg.Audit == nil {
		return nil, errors.New("create gateway: Target, Authorize and Audit are required")
	}
	if cfg.Transport == nil {
		transport := outbound.Transport()
		transport.MaxResponseHeaderBytes = maxHeader
		cfg.Transport = transport
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, proxy: newProxy(cfg)}, nil
}

// withheld are request headers that a runtime does not receive: credentials of the hub, the request
// for another protocol, and the origin, which the hub has checked and which is not that of the
// runtime.
var withheld = []string{
	"Authorization", "Connection", "Cookie", "Origin", "Sec-Fetch-Site", "Upgrade", "X-Chat-Push-Key", "X-Ops-Key",
}

// passed are the response headers of a runtime that reach a client. Others could have an effect on
// other pages of the hub, or on a proxy in front of it, such as X-Accel-Redirect.
var passed = []string{
	"Accept-Ranges", "Allow", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Length", "Content-Range", "Content-Type",
	"Date", "Etag", "Last-Modified", "Retry-After", "Vary", "X-Accel-Buffering", "X-Run-Id",
}

// uncached are the values of Cache-Control that a runtime sends. With any other one the response
// has that of the hub, no-store: it needs a credential, which a shared cache does not check.
var uncached = []string{"no-store", "private, no-cache", "no-cache, no-transform, no-store"}

// conditions are the request headers that the detail and the files of an agent understand.
var conditions = []string{"Accept", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range"}

// retain removes all headers but those with the given names.
func retain(h http.Header, names []string) {
	for name := range h {
		if !slices.Contains(names, name) {
			delete(h, name)
		}
	}
}
