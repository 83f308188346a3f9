package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/process"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

// BenchmarkStoppedByMistake measures how long a runtime is away that its hub did not stop, with the
// default settings of a hub: after the late call of a frozen hub, and after two signals.
func BenchmarkStoppedByMistake(b *testing.B) {
	for engine, open := range map[string]func(testing.TB) string{
		"postgres": func(t testing.TB) string { return dbtest.PostgreSQL(t) },
		"sqlite":   func(t testing.TB) string { return dbtest.SQLite(t) },
	} {
		for name, stop := range map[string]func(t testing.TB, f *farm, dir string){
			"Stop":    stopLate,
			"SIGTERM": func(t testing.TB, f *farm, _ string) { signalRuntime(t, f, syscall.SIGTERM) },
			"SIGKILL": func(t testing.TB, f *farm, _ string) { signalRuntime(t, f, syscall.SIGKILL) },
		} {
			b.Run(engine+"/"+name, func(b *testing.B) { benchStopped(b, open(b), stop) })
		}
	}
}

// benchStopped reports the longest of the times.
func benchStopped(b *testing.B, url string, stop func(testing.TB, *farm, string)) {
	data := b.TempDir()
	f := &farm{t: b, path: binary(b), database: url, env: []string{
		"DATABASE_URL", url, "HUB_DATA_DIR", data, "PROVIDER_ENCRYPTION_KEY", secret.Generate(), "PATH", os.Getenv("PATH"),
	}}
	p := f.hub()
	f.do(p, http.MethodPost, "", http.StatusAccepted)
	s := f.reach(p, "running")
	var longest time.Duration
	for b.Loop() {
		// A runtime that ran for less than ten seconds has failed at its start.
		started := s["startedAt"]
		require.Eventually(b, func() bool {
			at, err := time.Parse(time.RFC3339, started.(string))
			require.NoError(b, err)
			return time.Since(at) > 12*time.Second
		}, time.Minute, 100*time.Millisecond)
		began := time.Now()
		stop(b, f, filepath.Join(data, "deployments"))
		require.Eventually(b, func() bool {
			s = f.do(p, http.MethodGet, "", http.StatusOK)
			return s["state"] == "running" && s["startedAt"] != started
		}, daemontest.Patience, 10*time.Millisecond, "%v", &s)
		longest = max(longest, time.Since(began))
		f.run(s)
	}
	b.ReportMetric(longest.Seconds(), "longest-s")
	b.ReportMetric(0, "ns/op")
	f.do(p, http.MethodDelete, "", http.StatusNoContent)
	f.reach(p, "not_deployed")
	p.Signal(b, syscall.SIGTERM)
	require.Zero(b, p.Exit(b))
}

// stopLate stops the runtime as another hub of the same directory does.
func stopLate(t testing.TB, _ *farm, dir string) {
	all, err := filepath.Glob(filepath.Join(dir, "[a-z0-9]*.*"))
	require.NoError(t, err)
	require.Len(t, all, 1)
	key, uid, _ := strings.Cut(filepath.Base(all[0]), ".")
	owner, err := os.ReadFile(filepath.Join(dir, ".locks", filepath.Base(all[0])))
	require.NoError(t, err)
	driver, err := process.New(process.Config{Dir: dir, Command: []string{"/bin/false"}})
	require.NoError(t, err)
	ref := deploy.Ref{Key: key, UID: uid, Owner: strings.TrimSpace(strings.TrimPrefix(string(owner), "owner "))}
	observed, err := driver.Observe(t.Context(), ref)
	require.NoError(t, err)
	require.Len(t, observed.Runtimes, 1, "%+v", ref)
	require.NoError(t, driver.Stop(t.Context(), ref, observed.Runtimes[0].Revision, 0))
}

func signalRuntime(t testing.TB, f *farm, signal syscall.Signal) {
	pids := runtimes(f.path)
	require.NotEmpty(t, pids)
	require.NoError(t, syscall.Kill(pids[0], signal))
}
