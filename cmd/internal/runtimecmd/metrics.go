package runtimecmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// metrics counts events of runs for Prometheus.
type metrics struct {
	registry  *prometheus.Registry
	active    *prometheus.GaugeVec
	runs      *prometheus.CounterVec
	durations *prometheus.HistogramVec
	tokens    *prometheus.CounterVec
	calls     *prometheus.CounterVec

	observed sync.Map // from run id to *observedRun
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		active:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "agenthost_runs_active", Help: "Runs in progress."}, []string{"agent"}),
		runs:     counter("agenthost_runs_total", "Runs that ended. outcome is success, cancelled, error (an internal fault), or the error_type of a failed run.", "agent", "outcome"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "agenthost_run_duration_seconds", Help: "How long runs took.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800},
		}, []string{"agent"}),
		tokens: counter("agenthost_tokens_total", "Tokens of runs, as upstream counted them. type is input, output, cache_creation or cache_read.", "agent", "type"),
		calls:  counter("agenthost_tool_calls_total", "Tool calls that ended. result is ok or error.", "agent", "tool", "result"),
	}
	m.registry.MustRegister(m.active, m.runs, m.durations, m.tokens, m.calls,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// observedRun holds the state of a run for its metrics.
type observedRun struct {
	started time.Time
	tools   map[string]bool // offered to the model
	outcome string
}

// observe counts an event of a run. It is not called concurrently for one run.
func (m *metrics) observe(info runtime.RunInfo, ev wire.Event) {
	if _, ok := ev.Payload.(*wire.PartialMessage); ok {
		return // frequent and not counted
	}
	run, ok := m.observed.Load(info.RunID)
	if !ok {
		run, _ = m.observed.LoadOrStore(info.RunID, &observedRun{started: time.Now(), tools: map[string]bool{}, outcome: "error"})
		m.active.WithLabelValues(info.AgentID).Inc()
	}
	m.count(info, run.(*observedRun), ev.Payload)
}

func (m *metrics) count(info runtime.RunInfo, run *observedRun, payload wire.Payload) {
	switch p := payload.(type) {
	case *wire.System:
		if p.Init != nil {
			for _, name := range p.Tools {
				run.tools[name] = true
			}
		}
	case *wire.ToolResult:
		name, result := p.Result.ToolName, "ok"
		if !run.tools[name] { // a name that the model invented must not become a label
			name = "other"
		}
		if p.Result.IsError {
			result = "error"
		}
		m.calls.WithLabelValues(info.AgentID, name, result).Inc()
	case *wire.Result:
		if run.outcome = p.ErrorType; !p.IsError {
			run.outcome = "success"
		}
		m.used(info.AgentID, p.Usage)
	case *wire.Cancelled:
		run.outcome = "cancelled"
		m.used(info.AgentID, p.Usage)
	case *wire.Fault:
		m.used(info.AgentID, p.Usage)
	case *wire.Done:
		m.observed.Delete(info.RunID)
		m.active.WithLabelValues(info.AgentID).Dec()
		m.runs.WithLabelValues(info.AgentID, run.outcome).Inc()
		m.durations.WithLabelValues(info.AgentID).Observe(time.Since(run.started).Seconds())
	}
}

func (m *metrics) used(agent string, u wire.Usage) {
	for kind, n := range map[string]int64{
		"input": u.InputTokens, "output": u.OutputTokens,
		"cache_creation": u.CacheCreationInputTokens, "cache_read": u.CacheReadInputTokens,
	} {
		m.tokens.WithLabelValues(agent, kind).Add(float64(max(n, 0)))
	}
}

// serve serves GET /metrics on a separate address until ctx ends. It requires no key, and therefore
// one of the host names.
func (m *metrics) serve(ctx context.Context, addr string, hosts []string, log *slog.Logger) (net.Addr, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpapi.AllowsHost(r, hosts) {
			http.Error(w, "host name not allowed: add it to --allowed-hosts", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
	server := &http.Server{
		Handler: guarded, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serve metrics", "err", err)
		}
	}()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return listener.Addr(), nil
}
