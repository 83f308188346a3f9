package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/seed93082962/agenthost/internal/meter"
)

// scope is the name of the meter and the tracer of this package.
const scope = "github.com/seed93082962/agenthost/hub/internal/api"

// Limits that reject requests with RateLimited, for [Error.Limit].
const (
	LimitUser    = "user_requests"
	LimitAddress = "address_requests"
	LimitAnswers = "answers"
	LimitBudget  = "budget"
	LimitLarge   = "large_responses"
	LimitSignIn  = "sign_in"
)

var limits = []string{LimitUser, LimitAddress, LimitAnswers, LimitBudget, LimitLarge, LimitSignIn, meter.Other}

// series identifies requests that are counted together. All values are bounded: the methods and the
// routes by those of the server, and the classes of a status by 1 to 5.
type series struct {
	method, route string
	class         int
}

// metrics has the instruments of requests.
type metrics struct {
	duration metric.Float64Histogram
	active   metric.Int64UpDownCounter
	limited  metric.Int64Counter
	limits   map[string]metric.MeasurementOption
	methods  map[string]bool // of all routes

	mu      sync.RWMutex // guards options
	options map[series][]metric.RecordOption
}

func newMetrics(p metric.MeterProvider, routes []Route) (*metrics, error) {
	m := meter.New(p, scope)
	s := &metrics{
		duration: m.Seconds("agenthost.hub.request.duration", "Time of requests by route and class of the status. "+
			"A request without a route has matched none.", meter.Fast),
		active:  m.Current("agenthost.hub.requests.active", "Requests in progress, including event streams."),
		limited: m.CounterOf("agenthost.hub.requests.limited", "Requests that were rejected with status 429, by the limit.", "limit", limits...),
		limits:  map[string]metric.MeasurementOption{}, methods: map[string]bool{http.MethodHead: true, http.MethodOptions: true},
		options: map[series][]metric.RecordOption{},
	}
	for _, limit := range limits {
		s.limits[limit] = meter.Of("limit", limit)
	}

	for _, route := range routes {
		s.methods[route.Method] = s.methods[route.Method] || !route.Prefix
	}

	return s, m.Err()
}

// observe records a request.
func (s *metrics) observe(r *http.Request, route string, status int, took time.Duration) {
	key := series{method: r.Method, route: route, class: min(max(status/100, 1), 5)}
	if !s.methods[r.Method] {
		key.method = meter.Other
	}

	s.mu.RLock()
	options, ok := s.options[key]
	s.mu.RUnlock()
	if !ok {
		options = s.add(key)
	}

	s.duration.Record(context.Background(), took.Seconds(), options...)
}

func (s *metrics) add(key series) []metric.RecordOption {
	options := []metric.RecordOption{meter.Of("method", key.method, "route", key.route, "status", strconv.Itoa(key.class)+"xx")}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options[key] = options
	return options
}

// limit counts a rejected request.
func (s *metrics) limit(ctx context.Context, name string) {
	if !slices.Contains(limits, name) {
		name = meter.Other
	}

	s.limited.Add(ctx, 1, s.limits[name])
}
