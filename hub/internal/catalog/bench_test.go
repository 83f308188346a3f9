package catalog_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/catalog"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

// engines are the databases of the benchmarks.
func engines(b *testing.B) map[string]string {
	return map[string]string{"sqlite": dbtest.SQLite(b), "postgres": pgtest.URL(b)}
}

// fill creates 1,000 agents with 10 bindings each.
func fill(b *testing.B, s *server) {
	b.Helper()
	var names []wire.KnowledgeRef
	for i := range 10 {
		name := fmt.Sprint("set", i)
		_, err := s.Knowledge.Create(b.Context(), s.ada.Caller, wire.KnowledgeRequest{Name: name, DatasetID: name})
		require.NoError(b, err)
		names = append(names, wire.KnowledgeRef{Name: name})
	}
	for i := range 1000 {
		_, err := s.CreateAgent(b.Context(), s.ada.Caller, catalog.AgentInput{AgentRequest: wire.AgentRequest{
			Name: fmt.Sprint("agent", i), ProviderID: "demo", Model: "demo", SystemPrompt: strings.Repeat("You write code. ", 20), Knowledge: names,
		}})
		require.NoError(b, err)
	}
}

// handlerOf returns the handler for a member, without a network.
func handlerOf(b *testing.B, s *server) http.Handler {
	b.Helper()
	handler, err := api.New(api.Config{Authenticate: func(*http.Request) (api.Caller, error) { return s.bob.Caller, nil }}, s.Routes()...)
	require.NoError(b, err)
	return handler
}

// BenchmarkManifest reads the manifest of 1,000 agents that the client has, without a network.
func BenchmarkManifest(b *testing.B) {
	for name, url := range engines(b) {
		b.Run(name, func(b *testing.B) {
			s := open(b, url, nil)
			fill(b, s)
			handler := handlerOf(b, s)
			tag := s.bob.Get(manifest).Header.Get("ETag")
			for b.Loop() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, s.bob.Request(http.MethodGet, manifest, nil, "If-None-Match", tag))
				require.Equal(b, http.StatusNotModified, w.Code)
			}
		})
	}
}

// BenchmarkAgents reads all of 1,000 agents in pages of 100, without a network, alternately with
// encoding the same pages.
func BenchmarkAgents(b *testing.B) {
	for name, url := range engines(b) {
		b.Run(name, func(b *testing.B) {
			s := open(b, url, nil)
			fill(b, s)
			handler := handlerOf(b, s)
			var served, encoded time.Duration
			for b.Loop() {
				for page := range 10 {
					began := time.Now()
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, s.bob.Request(http.MethodGet, fmt.Sprintf("/api/v1/agents?page_size=100&page=%d", page+1), nil))
					served += time.Since(began)
					require.Equal(b, http.StatusOK, w.Code)
					list, err := s.EnabledAgents(b.Context(), s.bob.Caller, api.Page{Number: page + 1, Size: 100})
					require.NoError(b, err)
					require.Len(b, list.Items, 100)
					began = time.Now()
					_, err = json.Marshal(list)
					encoded += time.Since(began)
					require.NoError(b, err)
				}
			}
			b.ReportMetric(float64(served.Microseconds())/float64(b.N), "list-us")
			b.ReportMetric(float64(encoded.Microseconds())/float64(b.N), "encode-us")
			b.ReportMetric(float64(served)/float64(encoded), "ratio")
		})
	}
}

// BenchmarkUpload uploads a tool of 5 MiB, and reports by how much the heap was larger at most.
func BenchmarkUpload(b *testing.B) {
	s := open(b, dbtest.SQLite(b, series...), nil)
	source := toolSource + "\n//" + strings.Repeat("x", catalog.MaxToolFile-len(toolSource)-3)
	send(b, s.ada, http.MethodPost, tools, "weather.ts", toolSource).Want(http.StatusCreated)
	body, kind := form(b, "weather.ts", source)
	var text strings.Builder
	_, err := fmt.Fprint(&text, body)
	require.NoError(b, err)
	var most uint64
	for b.Loop() {
		runtime.GC()
		var before, now runtime.MemStats
		runtime.ReadMemStats(&before)
		ended, sampled := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(sampled)
			for {
				runtime.ReadMemStats(&now)
				if now.HeapAlloc > before.HeapAlloc {
					most = max(most, now.HeapAlloc-before.HeapAlloc)
				}
				select {
				case <-ended:
					return
				case <-time.After(time.Millisecond):
				}
			}
		}()
		s.ada.Do(http.MethodPut, tools+"/weather/file", strings.NewReader(text.String()), "Content-Type", kind).Want(http.StatusOK)
		close(ended)
		<-sampled
	}
	b.ReportMetric(float64(most)/(1<<20), "heap-MiB")
}
