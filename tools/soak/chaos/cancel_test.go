package chaos_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// canceller starts runs at one runtime and cancels them at another, or at the same. Its requests
// cost little: the rate is that of the runtimes.
type canceller struct {
	runs, cancels net.Conn
	from, of      *bufio.Reader // the responses of runs and cancels
	number, ran   int           // its own one, and that of its runs
}

func newCanceller(number int, start, cancel *host) (*canceller, error) {
	c := &canceller{number: number}
	var err error
	if c.runs, err = net.Dial("tcp", strings.TrimPrefix(start.url, "http://")); err != nil {
		return nil, err
	}
	if c.cancels, err = net.Dial("tcp", strings.TrimPrefix(cancel.url, "http://")); err != nil {
		return nil, err
	}
	c.from, c.of = bufio.NewReaderSize(c.runs, 16<<10), bufio.NewReader(c.cancels)
	return c, nil
}

func (c *canceller) close() { _ = c.runs.Close(); _ = c.cancels.Close() }

// run starts a run, cancels it after its first event, and requires the event that says so.
func (c *canceller) run() error {
	c.ran++
	id := fmt.Sprintf("%08x-0000-4000-8000-%012x", c.number, c.ran)
	limit := time.Now().Add(patience)
	if err := errors.Join(c.runs.SetDeadline(limit), c.cancels.SetDeadline(limit)); err != nil {
		return err
	}
	body := `{"message":"hello","runId":"` + id + `"}`
	if _, err := fmt.Fprintf(c.runs, "POST /v1/agents/%s/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", agentName, len(body), body); err != nil {
		return err
	}
	var response []byte // from the first event
	cancelled := false
	for !bytes.HasSuffix(response, []byte("\r\n0\r\n\r\n")) {
		line, err := c.from.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("the run %s: %w: %s", id, err, response)
		}
		response = append(response, line...)
		if !cancelled && bytes.HasPrefix(line, []byte("event: system")) {
			cancelled = true
			if err := c.cancel(id); err != nil {
				return err
			}
		}
		if len(response) > 64<<10 || !cancelled && bytes.HasSuffix(response, []byte("}\n")) {
			return fmt.Errorf("the run %s: %s", id, response)
		}
	}
	if !bytes.Contains(response, []byte("event: cancelled\n")) {
		return fmt.Errorf("the run %s was not cancelled: %s", id, response)
	}
	return nil
}

func (c *canceller) cancel(id string) error {
	if _, err := fmt.Fprintf(c.cancels, "POST /v1/runs/%s/cancel HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", id); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.of, nil)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("cancel of %s: %s: %s", id, res.Status, text)
	}
	return err
}

// cancelRuns starts and cancels runs for a time, as many as the machine can: each starts at one of
// the runtimes and is cancelled at the next one. Memory, goroutines and files must not grow after
// the first quarter, and no session may remain. sample is called forty times.
func cancelRuns(t *testing.T, hosts []*host, upstream *stuck, sample func()) {
	length := chaosTime(t) * 4 / 5 // of 10 minutes: two
	now := func() (all usage, err error) {
		for _, h := range hosts {
			u, err := use(h.pid(), h.metrics)
			if err != nil {
				return all, err
			}
			all = usage{all.memory + u.memory, all.files + u.files, all.goroutines + u.goroutines}
		}
		return all, nil
	}
	before, err := now()
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	const callers = 32
	var cancelled atomic.Int64
	var all sync.WaitGroup
	failures := make(chan error, callers)
	for i := range callers {
		all.Go(func() {
			c, err := newCanceller(i, hosts[i%len(hosts)], hosts[(i+1)%len(hosts)])
			if err != nil {
				failures <- err
				return
			}
			defer c.close()
			for ctx.Err() == nil {
				if err := c.run(); err != nil {
					failures <- err
					return
				}
				cancelled.Add(1)
			}
		})
	}
	var samples []usage
	for tick := time.NewTicker(length / 40); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-tick.C:
			u, err := now()
			require.NoError(t, err)
			samples = append(samples, u)
			sample()
		}
	}
	all.Wait()
	close(failures)
	require.NoError(t, <-failures)
	quarter, last := samples[len(samples)/4], samples[len(samples)-1]
	fmt.Printf("%d runs started and cancelled in %v, %.0f a second: %d to %d MiB, %d to %d goroutines, %d to %d files\n", cancelled.Load(), length,
		float64(cancelled.Load())/length.Seconds(), quarter.memory>>20, last.memory>>20, quarter.goroutines, last.goroutines, quarter.files, last.files)
	requireEnd(t, before, now)
	require.NoError(t, eventually(t.Context(), patience, upstream.ended))
	// Ended runs are remembered for five minutes, and the memory of the garbage collector varies.
	require.Less(t, last.memory, quarter.memory+64<<20+512*cancelled.Load(), "bytes of memory")
	for _, h := range hosts {
		sessions, err := filepath.Glob(filepath.Join(h.state, "*", "*", "*", "*.jsonl"))
		require.NoError(t, err)
		require.Empty(t, sessions)
	}
}

func TestStartedAndCancelledRuns(t *testing.T) {
	upstream, url, certificate := startStuck(t)
	cancelRuns(t, []*host{startHost(t, url, certificate)}, upstream, func() {})
}

// The runs of two replicas are cancelled at the other one. The bus has an entry of each for five
// minutes, and none later.
func TestStartedAndCancelledRunsOfReplicas(t *testing.T) {
	upstream, url, certificate := startStuck(t)
	address, monitoring, store := freeAddress(t), freeAddress(t), t.TempDir()
	bus := startDaemon(t, t.TempDir(), "nats", func() *exec.Cmd {
		return natsCommand(address, store, monitoring)
	})
	accepts(t, bus, address)
	entries := func() (n, size int64, err error) {
		res, err := http.Get("http://" + monitoring + "/jsz")
		if err != nil {
			return 0, 0, err
		}
		defer res.Body.Close()
		var all struct{ Messages, Bytes int64 }
		err = json.NewDecoder(res.Body).Decode(&all)
		return all.Messages, all.Bytes, err
	}
	var hosts []*host
	for range 2 {
		hosts = append(hosts, startHost(t, url, certificate, "AGENT_BUS_URL=nats://"+address+"/"+agentName))
	}
	most, bytes := int64(0), int64(0)
	cancelRuns(t, hosts, upstream, func() {
		n, size, err := entries()
		require.NoError(t, err)
		most, bytes = max(most, n), max(bytes, size)
	})
	fmt.Printf("the bus had at most %d entries with %d MiB\n", most, bytes>>20)
	began := time.Now()
	require.NoError(t, eventually(t.Context(), 5*time.Minute+patience, func(context.Context) error {
		n, _, err := entries()
		if err == nil && n > 0 {
			err = fmt.Errorf("the bus has %d entries", n)
		}
		return err
	}))
	fmt.Printf("the bus had none after %v\n", time.Since(began).Round(time.Second))
}
