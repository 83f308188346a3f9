package soak_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Limits of a soak. The first three bound the growth from the second fifth of the time to the last
// fifth: of memory, the lowest tenth of the samples, because work in progress varies, otherwise the
// medians.
const (
	maxMemory   = 16 << 20    // bytes of resident memory, or a tenth
	maxCount    = 20          // goroutines, and open files
	maxDatabase = 4 << 20     // bytes
	maxOther    = time.Minute // the machine may be busy
	stepTime    = 2 * time.Minute
)

// self is this test binary, which is also the programs of roles.
var self, binaries string

// roles are the programs that the first argument of this binary selects.
var roles = map[string]func(){"mcp": serveStdio}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		roles[os.Args[1]]()
		return
	}
	os.Exit(func() int {
		var err error
		if self, err = os.Executable(); err == nil {
			binaries, err = os.MkdirTemp("", "soak")
		}
		defer os.RemoveAll(binaries)
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binaries, "./cmd/runtime", "./cmd/hub", "./runtime/internal/builtin/testdata/pages")
		build.Dir, build.Env, build.Stderr = filepath.Join("..", ".."), append(os.Environ(), "GOWORK="), os.Stderr
		err = errors.Join(err, build.Run())
		if err != nil {
			fmt.Fprintln(os.Stderr, "soak:", err)
			return 1
		}
		fmt.Printf(row, "attack", "steps/s", "cpu, ms", "memory, MiB", "peak", "goroutines", "files", "database, KiB", "others", "p50, ms", "p99", "max")
		return m.Run()
	}())
}

const row = "%-18s %8v %8v %14v %6v %12v %12v %16v %8v %8v %6v %6v\n"

// attack is an attack on one server.
type attack struct {
	server   *server
	pause    time.Duration                          // between two steps of a connection
	parallel int                                    // connections; default 1
	peak     int64                                  // bytes of memory that the server may have; 0: any
	cost     time.Duration                          // processor time that the server may need for a step; 0: any
	step     func(ctx context.Context, n int) error // fails unless the result is the harmless one
	other    func(ctx context.Context) error        // a request of another caller
}

// run runs an attack for SOAKTIME, and prints its figures.
func (a attack) run(t *testing.T) {
	length, err := time.ParseDuration(cmp.Or(os.Getenv("SOAKTIME"), "5m"))
	require.NoError(t, err)
	ctx, stop := context.WithTimeoutCause(t.Context(), length, errOver)
	defer stop()
	var work sync.WaitGroup
	failures := make(chan error, 200)
	repeat := func(every, limit time.Duration, do func(ctx context.Context) error) {
		work.Go(func() {
			for tick := time.NewTicker(every); ctx.Err() == nil; {
				timed, cancel := context.WithTimeout(ctx, limit)
				err := do(timed)
				cancel()
				if err != nil && ctx.Err() == nil {
					failures <- err
					stop()
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	used, steps := a.server.processor(), atomic.Int64{}
	for i := range max(a.parallel, 1) {
		n := i
		repeat(a.pause, stepTime, func(ctx context.Context) error {
			if err := a.step(ctx, n); err != nil {
				return fmt.Errorf("step %d: %w", n, err)
			}
			n += max(a.parallel, 1)
			steps.Add(1)
			return nil
		})
	}
	var latencies []int64
	repeat(500*time.Millisecond, maxOther, func(ctx context.Context) error {
		began := time.Now()
		if err := a.other(ctx); err != nil {
			return fmt.Errorf("another caller after %v: %w", time.Since(began), err)
		}
		latencies = append(latencies, time.Since(began).Milliseconds())
		return nil
	})
	var samples []sample
	repeat(max(length/500, 50*time.Millisecond), maxOther, func(ctx context.Context) error {
		now, err := a.server.sample(ctx)
		if err == nil {
			samples = append(samples, now)
		}
		return err
	})
	work.Wait()
	close(failures)
	for err := range failures {
		t.Error(err, a.server.tail())
	}
	require.ErrorIs(t, context.Cause(ctx), errOver)

	cost := (a.server.processor() - used) / time.Duration(max(steps.Load(), 1))
	begin, end, peak := medians(samples[len(samples)/5:2*len(samples)/5]), medians(samples[4*len(samples)/5:]), int64(0)
	for _, s := range samples {
		peak = max(peak, s.memory)
	}
	slices.Sort(latencies)
	at := func(share int) int64 { return latencies[(len(latencies)-1)*share/100] }
	course := func(from, to int64) string { return fmt.Sprintf("%d to %d", from, to) }
	fmt.Printf(row, t.Name()[len("TestSoak/"):], fmt.Sprintf("%.1f", float64(steps.Load())/length.Seconds()), cost.Milliseconds(), course(begin.memory>>20, end.memory>>20), peak>>20,
		course(begin.goroutines, end.goroutines), course(begin.files, end.files), course(begin.database>>10, end.database>>10), len(latencies), at(50), at(99), at(100))
	require.LessOrEqual(t, end.memory-begin.memory, max(maxMemory, begin.memory/10), "bytes of memory")
	if a.peak > 0 {
		require.LessOrEqual(t, peak, a.peak, "bytes of memory at the peak")
	}
	if a.cost > 0 {
		require.LessOrEqual(t, cost, a.cost, "processor time of a step")
	}
	require.LessOrEqual(t, end.goroutines-begin.goroutines, int64(maxCount), "goroutines")
	require.LessOrEqual(t, end.files-begin.files, int64(maxCount), "open files")
	require.LessOrEqual(t, end.database-begin.database, int64(maxDatabase), "bytes of the database")
}

var errOver = errors.New("the time of the soak is over")

func TestSoak(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) attack{
		"schemas": schemas, "mcp": mcpServers, "pages": pages, "upstreams": upstreams, "uploads": uploads, "scripts": scripts,
		"edits": edits, "logouts": logouts, "names": names, "readers": readers, "catalog": components, "large": large, "paths": paths, "requests": requests,
		"sign-ins sqlite": signIns(sqlite), "sign-ins postgres": signIns(postgres), "writes sqlite": writes(sqlite), "writes postgres": writes(postgres),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start(t).run(t)
		})
	}
}
