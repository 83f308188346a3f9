// Package api has the common parts of the hub's handlers: routes as data with their permissions,
// JSON bodies, one form of errors, paging, and the caller of a request.
//
// A concern of the hub lists its [Route] values, whose handlers return errors. [New] returns one
// http.Handler for all lists:
//
//	func (s *Service) Routes() []api.Route {
//		return []api.Route{
//			{Method: "POST", Path: "/auth/login", Access: api.Open, Handle: s.login},
//			{Method: "GET", Path: "/api/v1/admin/users/:id", Group: rbac.AdminOnly, Category: "user",
//				Handle: s.showUser},
//		}
//	}
//
//	func (s *Service) showUser(w http.ResponseWriter, r *http.Request) error {
//		user, err := s.User(r.Context(), api.CallerOf(r), r.PathValue("id"))
//		if err != nil {
//			return err
//		}
//		return api.Encode(w, http.StatusOK, user)
//	}
//
// [Call], [CallBy], [ListOf] and others make such handlers of a method of a service.
//
// Requests are checked in this order: the path (404) and method (405 with Allow), cross-origin
// writes (403), the credential (401), the permission (403), and the body. A path parameter is one
// segment. It is never empty and contains no slash, no control character and only valid UTF-8;
// otherwise the path is 404.
//
// A body is read only up to the limit of its route, 1 MiB by default, and decoded only if it has at
// most 262,144 values. The limits bound time and memory, and encoding/json bounds the depth.
//
// An error is written as {"code","message","data"?,"requestId"}. A handler returns a [Code], an
// [*Error] with details, or [Fields]. Every other error is converted by Config.Translate, or
// becomes a 500 whose text is only in the log.
//
// The access log contains neither queries nor headers. Of a path that matches no route it contains
// only the segments that occur in the route table.
package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

// Config configures [New].
type Config struct {
	Logger *slog.Logger // Defaults to none.

	// Authenticate returns the caller of a request, or the error of the response: a code with
	// status 401 or 403, or an error for Translate if the credential could not be checked. It is
	// not called for routes that are Open, and required for all others.
	Authenticate func(*http.Request) (Caller, error)

	// Admit is called with the caller of each request that may call its route, and the group of the
	// route, or the zero value for every role. It returns the context of the request, which it
	// cancels with a cause that wraps [ErrAccessEnded] when the caller may no longer call the
	// route. The end of the request calls the function. Defaults to the same context.
	Admit func(context.Context, Caller, rbac.Group) (context.Context, func())

	// Denied records a request that was rejected because of its caller: with Forbidden by the group
	// of the route or by its handler, or with the code of an error made by [Code.Of]. It runs
	// before the response is written. If it fails, its error is the response instead of the 403.
	// Defaults to none.
	Denied func(*http.Request, Route, Caller, wire.Code) error

	// Translate converts errors of other packages, such as an unavailable database. It returns nil
	// for unknown errors. Defaults to none.
	Translate func(error) *wire.Error

	// TrustedProxies are the networks whose X-Forwarded-For is used. Defaults to none.
	TrustedProxies []netip.Prefix

	// UserRate and AddressRate are the requests that a user, and the clients of an address (of IPv6: a
	// /64), may send to routes that are Rated within a minute. Each replica counts separately.
	// Default to no limit.
	UserRate, AddressRate int

	// Now is the clock of the rates. Defaults to time.Now.
	Now func() time.Time

	// CORSOrigins are the origins whose scripts may call the API, such as
	// "https://console.example.com". Defaults to none.
	CORSOrigins []string

	// PublicURL is the public address of the hub, whose pages may call the API even if a proxy
	// changes the Host header.
	PublicURL string

	// MeterProvider receives the metrics of requests, and TracerProvider a span of each request that
	// matches a route. A request with a traceparent continues its trace. Default to none.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
}

// New returns the handler of all routes. Its error names the invalid route or setting.
func New(cfg Config, routes ...Route) (http.Handler, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Translate == nil {
		cfg.Translate = func(error) *wire.Error { return nil }
	}

	if cfg.Now == nil {
		cfg.Now = time.Now
	}

	s := &server{cfg: cfg, rates: newRates(cfg), literals: map[string]bool{}, quiet: map[string]bool{}, cors: map[string]bool{}, budget: budget{used: map[string]int64{}, waiting: map[string]int{}}}
	var err error
	if s.metrics, err = newMetrics(cfg.MeterProvider, routes); err != nil {
		return nil, err
	}

	if cfg.TracerProvider != nil {
		s.tracer = cfg.TracerProvider.Tracer(scope)
	}

	for _, prefix := range cfg.TrustedProxies {
		prefix, err := plainPrefix(prefix)
		if err != nil {
			return nil, err
		}

		s.proxies = append(s.proxies, prefix)
	}

	for _, origin := range cfg.CORSOrigins {
		if err := checkOrigin(origin); err != nil {
			return nil, err
		}

		s.cors[origin] = true
		if err := s.crossOrigin.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}

	if cfg.PublicURL != "" {
		origin, err := originOf(cfg.PublicURL)
		if err != nil {
			return nil, err
		}

		if err := s.crossOrigin.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}

	return s.handler(routes)
}

// checkOrigin accepts only the form that browsers send: origins are compared as strings.
func checkOrigin(origin string) error {
	want, err := originOf(origin)
	if err != nil {
		return fmt.Errorf("origin %q: it must have the form https://console.example.com, without a wildcard", origin)
	}

	if origin != want {
		return fmt.Errorf("origin %q: browsers send it as %s", origin, want)
	}

	return nil
}

// originOf returns the origin of a URL in the form that browsers send.
func originOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Contains(u.Host, "*") {
		return "", errors.New("public URL: it must have the form https://hub.example.com")
	}

	host := strings.ToLower(u.Host)
	host = strings.TrimSuffix(host, ":"+map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + strings.TrimSuffix(host, ":"), nil
}
