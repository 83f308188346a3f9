package main_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

// BenchmarkBackup compares the times of 100 reads and 40 writes a second before and during a backup
// of 1 GB.
func BenchmarkBackup(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{
		"postgres": func(t testing.TB) string { return pgtest.URL(t) },
		"sqlite":   func(t testing.TB) string { return dbtest.SQLite(t) },
	} {
		b.Run(name, func(b *testing.B) { benchBackup(b, url(b)) })
	}
}

func benchBackup(b *testing.B, url string) {
	hub := binary(b)
	env := append(database(b, url), "PATH", pgtest.Bin(b), "HUB_LOG_LEVEL", "error")
	p := spawn(b, hub, env)
	token := setUp(b, p.Instance)
	fill(b, url)
	load := func(method, path, body string, every time.Duration, stopped chan struct{}) (times []time.Duration) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-stopped:
				return times
			case <-tick.C:
			}
			began := time.Now()
			res := call(b, method, p.URL+path, token, strings.ReplaceAll(body, "NAME", fmt.Sprint(began.UnixNano())))
			times = append(times, time.Since(began))
			if res.status >= http.StatusBadRequest {
				b.Error(res.text)
				return times
			}
		}
	}
	measure := func(phase string, during func()) {
		stopped := make(chan struct{})
		var all sync.WaitGroup
		var reads, writes []time.Duration
		all.Go(func() { reads = load("GET", "/api/v1/admin/providers", "", 10*time.Millisecond, stopped) })
		all.Go(func() {
			body := `{"name":"NAME","protocol":"openai","baseUrl":"https://llm.example.com"}`
			writes = load("POST", "/api/v1/admin/providers", body, 25*time.Millisecond, stopped)
		})
		during()
		close(stopped)
		all.Wait()
		for kind, times := range map[string][]time.Duration{"read": reads, "write": writes} {
			slices.Sort(times)
			for name, part := range map[string]int{"p50": 50, "p90": 90, "p99": 99} {
				b.ReportMetric(float64(times[len(times)*part/100].Microseconds())/1000, phase+"-"+kind+"-"+name+"-ms")
			}
		}
	}
	for b.Loop() {
		measure("idle", func() { <-time.After(15 * time.Second) })
		measure("backup", func() {
			began := time.Now()
			run := daemontest.Spawn(b, hub, b.TempDir(), env, "backup", filepath.Join(b.TempDir(), "hub.backup"))
			require.Zero(b, run.Exit(b), "%s", run.Log)
			b.ReportMetric(time.Since(began).Seconds(), "backup-s")
		})
	}
}

// fill adds a table of 1 GB to the database.
func fill(b *testing.B, url string) {
	d := dbtest.Open(b, url)
	defer d.Close()
	require.NoError(b, db.Exec(b.Context(), d.Write(), "fill", `CREATE TABLE filler (body `+map[db.Engine]string{db.PostgreSQL: "BYTEA", db.SQLite: "BLOB"}[d.Engine()]+`)`))
	body := make([]byte, 1<<20)
	for range 1 << 10 {
		_, _ = rand.Read(body)
		args := []any{}
		for part := range slices.Chunk(body, 1<<14) {
			args = append(args, part)
		}
		require.NoError(b, db.Exec(b.Context(), d.Write(), "fill", `INSERT INTO filler (body) VALUES `+db.Rows(1, len(args), 1), args...))
	}
}
