package kubernetes_test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
	"github.com/seed93082962/agenthost/tools/kubernetes/clustertest"
)

// BenchmarkAdopt measures how a hub that starts finds 1,000 deployments of a real API server, with
// their objects as the control plane has completed them. There is no node: pods wait.
func BenchmarkAdopt(b *testing.B) {
	const n = 1000
	c := clustertest.Start(b)
	cfg := kubernetes.Config{REST: c.Config(), Namespace: c.Namespace(b), Image: runtimeImage}
	open := func() *kubernetes.Driver {
		d, err := kubernetes.New(cfg)
		require.NoError(b, err)
		d.Own("first")
		return d
	}
	source := open()
	var all errgroup.Group
	all.SetLimit(8)
	for i := range n {
		all.Go(func() error {
			req, owner := request(), ref
			req.Key, owner.Key = fmt.Sprint("default-helper-", i), fmt.Sprint("default-helper-", i)
			for range 10 { // an API server that is busy
				if err := source.Apply(b.Context(), owner, 1, req); err == nil {
					return nil
				}
			}
			return source.Apply(b.Context(), owner, 1, req)
		})
	}
	require.NoError(b, all.Wait())
	require.Eventually(b, func() bool {
		running := 0
		for i := range n {
			o, err := source.Observe(b.Context(), deploy.Ref{Key: fmt.Sprint("default-helper-", i), UID: ref.UID, Owner: ref.Owner})
			if err == nil && o.Runtime(1).Phase == deploy.Running && o.Runtime(1).Message != "" { // no node has room
				running++
			}
		}
		return running == n
	}, 5*time.Minute, time.Second)
	require.NoError(b, source.Close())

	var took, used time.Duration
	var grown int64
	for b.Loop() {
		heap, cpu := heapBytes(), cpuTime(b)
		d := open()
		began := time.Now()
		keys, err := d.List(b.Context(), "first")
		require.NoError(b, err)
		require.Len(b, keys, n)
		for _, ref := range keys {
			o, err := d.Observe(b.Context(), ref)
			require.NoError(b, err)
			require.Equal(b, deploy.Running, o.Runtime(1).Phase)
		}
		took += time.Since(began)
		used += cpuTime(b) - cpu
		grown += heapBytes() - heap
		require.NoError(b, d.Close())
	}
	b.ReportMetric(float64(took.Milliseconds())/float64(b.N), "adopt-ms")
	b.ReportMetric(float64(used.Milliseconds())/float64(b.N), "cpu-ms")
	b.ReportMetric(float64(grown)/float64(b.N)/(1<<20), "heap-MB")
}

func heapBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // G115: less than an exbibyte
}

// cpuTime returns the CPU time of this process, which is not that of the control plane.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
