package api_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/julienschmidt/httprouter"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/rbac"
)

type benchUser struct {
	ID, Username, DisplayName, Role, Status string
}

var benchAnswer = benchUser{"0190f3c1-7b6e-7c3d-9d5e-2f1a4b6c8d0e", "ada", "Ada Lovelace", "admin", "active"}

// whole is an authenticated route with everything that the package does, including an access log in
// JSON. bare is a router and json.Marshal.
func whole(b *testing.B) http.Handler { return observed(b, func(*api.Config) {}) }

// measured is whole with the metrics of a scraped hub.
func measured(b *testing.B) http.Handler {
	return observed(b, func(c *api.Config) {
		c.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	})
}

// traced is measured with a span of each request, which is not exported.
func traced(b *testing.B) http.Handler {
	return observed(b, func(c *api.Config) {
		c.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
		c.TracerProvider = sdktrace.NewTracerProvider()
	})
}

func observed(b *testing.B, change func(*api.Config)) http.Handler {
	return handler(b, func(c *api.Config) {
		change(c)
		c.Logger = slog.New(slog.NewJSONHandler(io.Discard, nil))
		c.Authenticate = func(*http.Request) (api.Caller, error) { return users["admin-token"], nil }
		c.CORSOrigins = []string{"https://console.example.com"}
	}, append([]api.Route{{Method: "GET", Path: "/users/:id", Group: rbac.AdminOnly, Handle: func(w http.ResponseWriter, r *http.Request) error {
		if r.PathValue("id") == "" {
			return wire.NotFound
		}
		return api.Encode(w, http.StatusOK, benchAnswer)
	}}}, crossing...)...)
}

func bare(*testing.B) http.Handler {
	router := httprouter.New()
	router.GET("/users/:id", func(w http.ResponseWriter, _ *http.Request, _ httprouter.Params) {
		data, _ := json.Marshal(benchAnswer)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(data)
	})
	return router
}

var contestants = []struct {
	name string
	make func(*testing.B) http.Handler
}{{"api", whole}, {"api with metrics", measured}, {"api with metrics and traces", traced}, {"bare httprouter", bare}}

// nowhere takes an answer as net/http does: a header map for each, and nothing kept.
type nowhere struct{ header http.Header }

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (w *nowhere) WriteHeader(int)             {}

// BenchmarkHandler measures the handler without a network.
func BenchmarkHandler(b *testing.B) {
	for _, c := range contestants {
		b.Run(c.name, func(b *testing.B) {
			h := c.make(b)
			r := httptest.NewRequest(http.MethodGet, "/users/7", nil)
			r.Header.Set("Authorization", "Bearer admin-token")
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(&nowhere{http.Header{}}, r)
			}
		})
	}
}

// BenchmarkServer is the same over connections that stay open, client included.
func BenchmarkServer(b *testing.B) {
	for _, c := range contestants {
		b.Run(c.name, func(b *testing.B) {
			server := httptest.NewServer(c.make(b))
			defer server.Close()
			transport := &http.Transport{MaxIdleConnsPerHost: 64}
			defer transport.CloseIdleConnections()
			b.SetParallelism(32) // of 2 processors: 64 connections
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL+"/users/7", nil)
					r.Header.Set("Authorization", "Bearer admin-token")
					res, err := transport.RoundTrip(r)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
