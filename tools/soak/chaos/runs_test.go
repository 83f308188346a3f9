package chaos_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// usage is what a process has.
type usage struct{ memory, files, goroutines int64 }

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)

// use returns what a process has. metrics is the URL of its metrics.
func use(pid int, metrics string) (u usage, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return u, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		return u, err
	}
	u.memory = pages * int64(os.Getpagesize())
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return u, err
	}
	u.files = int64(len(open))
	res, err := http.Get(metrics)
	if err != nil {
		return u, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return u, err
	}
	u.goroutines, err = strconv.ParseInt(string(goroutines.FindSubmatch(body)[1]), 10, 64)
	return u, err
}

// manyRuns returns how many runs can be open at once: 10,000 if each process may have so many files
// for each of them, and 200 others.
func manyRuns(t *testing.T, files int) int {
	most := syscall.Rlimit{Cur: 100_000, Max: 100_000}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &most) != nil { // the machine has a lower limit for root too
		require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &most))
		most.Cur = most.Max
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &most))
	}
	n := min(10_000, int(most.Max-200)/files)
	fmt.Printf("%d runs, because a process may have %d files, and needs %d for each\n", n, most.Max, files)
	return n
}

// host is one runtime with an agent whose model answers one word and then nothing.
type host struct {
	*daemon
	url, metrics string
	state        string // directory of the sessions
}

// startHost starts a runtime. Its upstream has a certificate, and env is added to its environment.
func startHost(t *testing.T, upstream, certificate string, env ...string) *host {
	h := &host{}
	at, metrics, dir := freeAddress(t), freeAddress(t), t.TempDir()
	h.url, h.metrics, h.state = "http://"+at, "http://"+metrics+"/metrics", filepath.Join(dir, "state")
	settings := "limits: {maxConcurrentRuns: 20000}\nstoreOnRequest: true\nagents: [{id: " + agentName +
		", model: m, provider: {protocol: anthropic, baseUrl: " + upstream + ", apiKey: k}}]"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents.yaml"), []byte(settings), 0o600))
	h.daemon = startDaemon(t, t.TempDir(), "runtime", func() *exec.Cmd {
		cmd := exec.Command(filepath.Join(binaries, "runtime"), "--addr", at, "--metrics-addr", metrics, "--log-level", "error")
		cmd.Dir, cmd.Env = dir, append([]string{"AGENT_STATE_DIR=" + h.state, "HOME=" + dir, "SSL_CERT_FILE=" + certificate}, env...)
		return cmd
	})
	accepts(t, h.daemon, at)
	accepts(t, h.daemon, metrics)
	return h
}

// begin starts a run and reads its stream until the first word.
func begin(ctx context.Context, client *http.Client, url, token, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	last := ""
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), "One") {
			return res, nil
		}
		if text := lines.Text(); text != "" {
			last = text
		}
	}
	_ = res.Body.Close()
	return nil, fmt.Errorf("no run at %s: %s: %s", url, res.Status, last)
}

// openRuns starts n runs, sixteen at a time, and returns a function that ends them.
func openRuns(t *testing.T, n int, start func(ctx context.Context, client *http.Client, i int) (*http.Response, error)) (end func()) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ctx, cancel := context.WithCancel(t.Context())
	streams := make([]*http.Response, n)
	var next atomic.Int64
	var all sync.WaitGroup
	failures := make(chan error, 16)
	for range 16 {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				res, err := start(ctx, client, i)
				if err != nil {
					failures <- err
					return
				}
				streams[i] = res
			}
		})
	}
	all.Wait()
	close(failures)
	require.NoError(t, <-failures)
	return func() {
		cancel()
		for _, s := range streams {
			_ = s.Body.Close()
		}
	}
}

// requireEnd waits until a process has no more files and goroutines than before.
func requireEnd(t *testing.T, before usage, now func() (usage, error)) (after usage) {
	require.NoError(t, eventually(t.Context(), 2*patience, func(context.Context) (err error) {
		after, err = now()
		if err == nil && (after.files > before.files+20 || after.goroutines > before.goroutines+20) {
			err = fmt.Errorf("%+v before, and %+v after all runs have ended", before, after)
		}
		return err
	}))
	return after
}

// crowd is a server with many open runs.
type crowd struct {
	n      int // of the runs
	now    func() (usage, error)
	start  func(ctx context.Context, client *http.Client, i int) (*http.Response, error)
	during func() // all are open
	after  func() // all have ended
}

// openTwice requires that nothing of the runs remains after their end, and that the second time
// needs no more memory.
func (c crowd) openTwice(t *testing.T) {
	before, err := c.now()
	require.NoError(t, err)
	each := func(of, idle int64) float64 { return float64(of-idle) / float64(c.n) }
	peaks := make([]int64, 2)
	for round := range peaks {
		began := time.Now()
		end := openRuns(t, c.n, c.start)
		open, err := c.now()
		require.NoError(t, err)
		peaks[round] = open.memory
		fmt.Printf("%d runs open after %v: %d MiB, %.1f KiB, %.1f goroutines and %.1f files for each\n", c.n, time.Since(began).Round(time.Second),
			open.memory>>20, each(open.memory, before.memory)/1024, each(open.goroutines, before.goroutines), each(open.files, before.files))
		c.during()
		end()
		after := requireEnd(t, before, c.now)
		fmt.Printf("after their end: %d MiB, %d goroutines, %d files\n", after.memory>>20, after.goroutines, after.files)
		c.after()
	}
	// What remained of the first runs would double it. The garbage collector is not as regular.
	require.Less(t, peaks[1], peaks[0]+peaks[0]/2, "bytes of memory with %d runs", c.n)
}

// 10,000 runs of one runtime are open at once, twice. Each gets its first word.
func TestOpenRuns(t *testing.T) {
	n := manyRuns(t, 1)
	upstream, url, certificate := startStuck(t)
	h := startHost(t, url, certificate)
	crowd{
		n:   n,
		now: func() (usage, error) { return use(h.pid(), h.metrics) },
		start: func(ctx context.Context, client *http.Client, _ int) (*http.Response, error) {
			return begin(ctx, client, h.url+"/v1/agents/"+agentName+"/runs", "", `{"message":"hello"}`)
		},
		during: func() {},
		after:  func() { require.NoError(t, eventually(t.Context(), patience, upstream.ended)) },
	}.openTwice(t)
}

// closed fails while a request of an upstream is open.
func closed(u *modeltest.Upstream) error {
	for _, request := range u.Requests() {
		if at, _ := request.End(); at.IsZero() {
			return errors.New("a request to the model is open")
		}
	}
	return nil
}
