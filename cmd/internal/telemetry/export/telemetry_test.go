package export_test

import (
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/cmd/internal/telemetry"
	"github.com/seed93082962/agenthost/cmd/internal/telemetry/export"
	"github.com/seed93082962/agenthost/internal/logtest"
)

func settings(t *testing.T, pairs ...string) telemetry.Settings {
	t.Helper()
	s, read := checked(pairs...)
	require.NoError(t, read.Err())
	return s
}

// checked returns settings with their faults.
func checked(pairs ...string) (s telemetry.Settings, read *daemon.Origins) {
	read = daemon.Read(&s, daemontest.Getenv(pairs), nil)
	s.Check(read)
	return s, read
}

func start(t *testing.T, cfg telemetry.Config) (*export.Telemetry, *logtest.Buffer) {
	t.Helper()
	log := &logtest.Buffer{}
	cfg.Service, cfg.Version, cfg.Logger = "test", "v1", slog.New(slog.NewJSONHandler(log, nil))
	tel, err := export.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { tel.Shutdown(context.WithoutCancel(t.Context())) })
	return tel, log
}

// receiver returns the address of an OTLP receiver with the status, and its requests.
func receiver(t *testing.T, status int) (string, chan *coltrace.ExportTraceServiceRequest) {
	t.Helper()
	received := make(chan *coltrace.ExportTraceServiceRequest, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		data, err := io.ReadAll(body)
		var request coltrace.ExportTraceServiceRequest
		if err == nil && r.URL.Path == "/base/v1/traces" && r.Header.Get("Api-Key") == "a b" && proto.Unmarshal(data, &request) == nil {
			received <- &request
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/base", received
}

// Without an endpoint there are no traces, and without metrics no series.
func TestProvidersAreNilUnlessConfigured(t *testing.T) {
	for name, pairs := range map[string][]string{
		"nothing":  nil,
		"disabled": {"OTEL_SDK_DISABLED", "true", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"},
		"none":     {"OTEL_TRACES_EXPORTER", "none", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			tel, _ := start(t, telemetry.Config{Settings: settings(t, pairs...)})
			require.True(t, tel.TracerProvider() == nil)
			require.True(t, tel.MeterProvider() == nil)
		})
	}
}

func TestSpansReachTheEndpoint(t *testing.T) {
	endpoint, received := receiver(t, http.StatusOK)
	tel, _ := start(t, telemetry.Config{Settings: settings(t, "OTEL_EXPORTER_OTLP_ENDPOINT", endpoint,
		"OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b", "OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=prod")})
	_, span := tel.TracerProvider().Tracer("t").Start(t.Context(), "work")
	span.End()
	tel.Shutdown(t.Context())
	resource := (<-received).ResourceSpans[0]
	require.Equal(t, "work", resource.ScopeSpans[0].Spans[0].Name)
	values := map[string]string{}
	for _, a := range resource.Resource.Attributes {
		values[a.Key] = a.Value.GetStringValue()
	}
	require.Equal(t, "other", values["service.name"])
	require.Equal(t, "v1", values["service.version"])
	require.Equal(t, "prod", values["deployment.environment.name"])
}

func TestSamplers(t *testing.T) {
	for name, row := range map[string]struct {
		sampler, arg string
		want         bool
	}{
		"default":      {"", "", true},
		"off":          {"always_off", "", false},
		"ratio":        {"traceidratio", "0", false},
		"parent ratio": {"parentbased_traceidratio", "1", true},
		"parent off":   {"parentbased_always_off", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			tel, _ := start(t, telemetry.Config{Settings: settings(t, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1",
				"OTEL_TRACES_SAMPLER", row.sampler, "OTEL_TRACES_SAMPLER_ARG", row.arg)})
			_, span := tel.TracerProvider().Tracer("t").Start(t.Context(), "work")
			require.Equal(t, row.want, span.SpanContext().IsSampled())
		})
	}
}

// A receiver that rejects every batch fills one line of the log in a minute.
func TestFailedExportsAreLoggedOncePerMinute(t *testing.T) {
	endpoint, received := receiver(t, http.StatusBadRequest)
	tel, log := start(t, telemetry.Config{Settings: settings(t, "OTEL_EXPORTER_OTLP_ENDPOINT", endpoint, "OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b")})
	flusher := tel.TracerProvider().(interface{ ForceFlush(context.Context) error })
	for range 5 {
		_, span := tel.TracerProvider().Tracer("t").Start(t.Context(), "work")
		span.End()
		require.NoError(t, flusher.ForceFlush(t.Context()))
		<-received
	}
	require.Equal(t, 1, strings.Count(log.String(), "export traces"), "%s", log)
}

// A receiver that does not respond delays the end of the server by the limit only.
func TestShutdownIsBounded(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	tel, _ := start(t, telemetry.Config{Settings: settings(t, "OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)})
	_, span := tel.TracerProvider().Tracer("t").Start(t.Context(), "work")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	tel.Shutdown(ctx)
	require.Less(t, time.Since(begin), 4*time.Second)
}

func TestInvalidSettings(t *testing.T) {
	for variable, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT":        "collector:4318",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "grpc://collector:4317",
		"OTEL_EXPORTER_OTLP_PROTOCOL":        "grpc",
		"OTEL_EXPORTER_OTLP_HEADERS":         "secret",
		"OTEL_EXPORTER_OTLP_TIMEOUT":         "-1",
		"OTEL_TRACES_EXPORTER":               "jaeger",
		"OTEL_TRACES_SAMPLER":                "sometimes",
		"OTEL_RESOURCE_ATTRIBUTES":           "a=%zz",
	} {
		_, read := checked(variable, value)
		require.ErrorContains(t, read.Err(), variable+": ")
		require.NotContains(t, read.Err().Error(), "secret")
	}
	_, read := checked("OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "NaN")
	require.EqualError(t, read.Err(), `OTEL_TRACES_SAMPLER_ARG: "NaN" is not a number from 0 to 1`)
}

// The metrics of the server, of Go and of the process are served, but not to a web page.
func TestMetrics(t *testing.T) {
	tel, _ := start(t, telemetry.Config{Addr: "127.0.0.1:0"})
	counter, err := tel.MeterProvider().Meter("t").Int64Counter("agenthost.things", metric.WithDescription("Things."))
	require.NoError(t, err)
	counter.Add(t.Context(), 3)
	addr, err := tel.Serve(t.Context(), "127.0.0.1:0", nil)
	require.NoError(t, err)
	status, text := get(t, "http://"+addr.String()+"/metrics", "")
	require.Equal(t, http.StatusOK, status)
	for _, line := range []string{"agenthost_things_total 3\n", `service_version="v1"`, "go_goroutines ", "process_cpu_seconds_total "} {
		require.Contains(t, text, line)
	}
	status, _ = get(t, "http://"+addr.String()+"/metrics", "evil.example")
	require.Equal(t, http.StatusForbidden, status)
}

func get(t *testing.T, url, host string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Host = host
	res, err := new(http.Client).Do(req)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(text)
}
