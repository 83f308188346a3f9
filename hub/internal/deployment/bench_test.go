package deployment_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
	"github.com/seed93082962/agenthost/hub/internal/deployment"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/internal/secret"
)

// tallied counts the calls of a driver.
type tallied struct {
	deploy.Driver
	observe, list, apply atomic.Int64
}

func (c *tallied) Observe(ctx context.Context, ref deploy.Ref) (deploy.Observed, error) {
	c.observe.Add(1)
	return c.Driver.Observe(ctx, ref)
}

func (c *tallied) List(ctx context.Context, owner string) ([]deploy.Ref, error) {
	c.list.Add(1)
	return c.Driver.List(ctx, owner)
}

func (c *tallied) Apply(ctx context.Context, ref deploy.Ref, revision int64, req deploy.Request) error {
	c.apply.Add(1)
	return c.Driver.Apply(ctx, ref, revision, req)
}

// A hub with 1,000 deployments that do not change, for a minute. The CPU time is that of this
// process, which also has the 1,000 runtimes and responds to the probes.
func BenchmarkUnchanged(b *testing.B) {
	const n = 1000
	for engine, url := range map[string]func(testing.TB) string{
		"SQLite":     func(t testing.TB) string { return dbtest.SQLite(t) },
		"PostgreSQL": func(t testing.TB) string { return dbtest.PostgreSQL(t) },
	} {
		b.Run(engine, func(b *testing.B) {
			d := dbtest.Open(b, url(b), series...)
			w := &world{t: b, db: d, keys: []string{secret.Generate()}, driver: &deploytest.Memory{}}
			b.Cleanup(w.driver.Close)
			w.openCatalog()
			driver := &tallied{Driver: w.driver}
			h := w.start(func(c *deployment.Config) { c.Driver, c.WatchEvery, c.Backoff = driver, 0, 0 })
			for i := range n {
				name := fmt.Sprint("helper-", i)
				w.agent("default", name)
				h.ada.Post("/api/v1/admin/agents/"+name+"/deploy", nil).Want(http.StatusAccepted)
			}
			require.Eventually(b, func() bool {
				var running int
				require.NoError(b, d.Read().QueryRowContext(b.Context(), `SELECT count(*) FROM deployments WHERE state = 'running'`).Scan(&running))
				return running == n
			}, 10*patience, 100*time.Millisecond)
			applied := driver.apply.Load()
			observed, listed, used, began := driver.observe.Load(), driver.list.Load(), cpuTime(b), time.Now()
			for b.Loop() {
				<-time.After(time.Minute)
			}
			passed := time.Since(began).Seconds()
			b.ReportMetric(float64((cpuTime(b)-used).Milliseconds())/passed, "cpu-ms/s")
			b.ReportMetric(float64(driver.observe.Load()-observed)/passed, "observe/s")
			b.ReportMetric(float64(driver.list.Load()-listed)/passed, "list/s")
			require.Equal(b, applied, driver.apply.Load())
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
