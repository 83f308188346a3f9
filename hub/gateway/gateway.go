// Package gateway forwards requests to the runtimes of deployed agents: everything under /runtime
// with the API key of the deployment, and for callers of the hub the detail and the files of an
// agent.
//
//	service, err := gateway.New(gateway.Config{Target: deployments.Target, Audit: audit, Tenant: "default"})
//	if err != nil { ... }
//	handler, err := api.New(api.Config{...}, service.Routes()...)
//
// Streams are not buffered. A client that disconnects ends the request to the runtime, and
// a client that reads nothing for 30 s is disconnected. A runtime is not trusted: it receives no
// credential of the hub, and its cookies, redirects, protocol upgrades, informational responses and
// trailers do not reach a client. A browser displays its pages in a sandbox.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"

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
	if cfg.Target == nil || cfg.Audit == nil {
		return nil, errors.New("create gateway: Target and Audit are required")
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

// isUnsafe reports whether a response header has an effect on other pages of the hub, or is one
// that the hub sets.
func isUnsafe(name string, _ []string) bool {
	return strings.HasPrefix(name, "Access-Control-") || slices.Contains(unsafe, name)
}

var unsafe = []string{
	"Accept-Ch", "Activate-Storage-Access", "Alt-Svc", "Clear-Site-Data", "Content-Security-Policy", "Content-Security-Policy-Report-Only",
	"Critical-Ch", "Cross-Origin-Embedder-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy", "Link", "Nel",
	"Origin-Agent-Cluster", "Origin-Trial", "Permissions-Policy", "Referrer-Policy", "Refresh", "Report-To", "Reporting-Endpoints",
	"Service-Worker-Allowed", "Set-Cookie", "Set-Login", "Sourcemap", "Speculation-Rules", "Strict-Transport-Security", "Www-Authenticate",
	"X-Content-Type-Options", "X-Frame-Options", "X-Request-Id",
}

// passed are the response headers of details and files.
var passed = []string{
	"Accept-Ranges", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Length", "Content-Range", "Content-Type",
	"Date", "Etag", "Last-Modified", "Vary",
}

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
