package js

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/internal/outbound"
)

// WorkerArg is the argument of a worker: a program with a [Host] calls worker.Run if it is started
// with it.
const WorkerArg = "agenthost-js-worker"

// Config configures a [Host]. The zero value is valid in a program that calls worker.Run.
type Config struct {
	// Command starts a worker: a program that calls worker.Run with its standard input and output.
	// Defaults to this program with the argument [WorkerArg].
	Command []string

	// Env is the environment of workers. Scripts cannot read it. Defaults to an empty one.
	Env []string

	// Client performs the fetch requests of scripts. Defaults to one that rejects private, loopback
	// and link-local addresses.
	Client *http.Client

	// HTTPClient downloads tools from their URL, which the operator configures. Defaults to one
	// without a proxy and without a check of addresses.
	HTTPClient *http.Client

	MemoryLimit int64 // of a script, in bytes. Defaults to 64 MiB, at most 1 GiB.
	MaxOutput   int   // bytes of a result; a longer one is truncated. Defaults to 1 MiB, at most 8 MiB.
	Workers     int   // maximum number of processes; further calls wait. Defaults to the number of CPUs, at least 2.

	// LoadTime limits compiling a file and running it once. Defaults to 5 s.
	LoadTime time.Duration

	Logger *slog.Logger // Defaults to none.
}

// errClosed is the error of all methods of a Host after Close.
var errClosed = errors.New("the host of custom tools is closed")

const (
	killTime  = 200 * time.Millisecond // from the request to end a call until its worker is killed
	spare     = 2                      // idle processes that are retained: one for a call, and one in case it ends
	idleTime  = time.Minute            // after which an additional idle process is terminated
	maxFailed = 3                      // consecutive workers without a response after which no spare one is started
)

// loadLimits limits the time that a worker has for a file.
type loadLimits struct {
	load  time.Duration // for a tool with its download, if the context permits more
	build time.Duration // for compiling a file and running it once: other files wait for the worker
	warm  time.Duration // for loading a file in advance: calls may wait for the worker
	cold  time.Duration // for loading a file in a call
}

// Host loads tools and runs their calls in worker processes. It is safe for concurrent use.
type Host struct {
	cfg    Config
	limits loadLimits
	parses bool            // one file, which is not trusted: see NameOf
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	group  sync.WaitGroup // every goroutine of the host
	calls  atomic.Uint64

	unconfined sync.Once // a worker that the kernel does not confine is logged

	// suspects is a semaphore for the calls of programs that are cold or have failed. They leave a
	// worker to the others.
	suspects chan struct{}

	mu       sync.Mutex // guards the fields below
	closed   bool
	programs map[string]*program // by id
	order    []*program          // loaded programs, the oldest first
	all      map[*process]struct{}
	starting int
	failed   int        // consecutive workers that ended without a response
	idle     []*process // the last used one at the end
	waiters  []chan *process
}

// New returns a Host. It starts no process before a tool is loaded.
func New(cfg Config) (*Host, error) {
	if len(cfg.Command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find executable: %w", err)
		}

		cfg.Command = []string{self, WorkerArg}
	}

	cfg.MemoryLimit = cmp.Or(cfg.MemoryLimit, 64<<20)
	cfg.MaxOutput = cmp.Or(cfg.MaxOutput, 1<<20)
	cfg.Workers = cmp.Or(cfg.Workers, max(runtime.GOMAXPROCS(0), spare))
	cfg.LoadTime = cmp.Or(cfg.LoadTime, 5*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	switch {
	case cfg.MemoryLimit < 1<<20 || cfg.MemoryLimit > 1<<30:
		return nil, fmt.Errorf("memory limit of %d bytes is not between 1 MiB and 1 GiB", cfg.MemoryLimit)
	case cfg.MaxOutput < 1 || cfg.MaxOutput > 8<<20:
		return nil, fmt.Errorf("result limit of %d bytes is not between 1 byte and 8 MiB", cfg.MaxOutput)
	case cfg.Workers < 1:
		return nil, fmt.Errorf("%d workers are not enough", cfg.Workers)
	}

	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{Transport: outbound.Transport()}
	}

	if cfg.Client == nil {
		cfg.Client = outbound.Public(nil)
	}

	h := &Host{
		cfg: cfg, suspects: make(chan struct{}, max(cfg.Workers-1, 1)), programs: map[string]*program{}, all: map[*process]struct{}{},
		limits: loadLimits{load: 10 * time.Second, build: cfg.LoadTime, warm: 500 * time.Millisecond, cold: 5 * time.Second},
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h, nil
}

// Close terminates all workers. Their calls fail.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	all := make([]*process, 0, len(h.all))
	for p := range h.all {
		all = append(all, p)
	}

	for _, w := range h.waiters {
		close(w)
	}

	h.waiters = nil
	h.mu.Unlock()
	h.cancel()
	for _, p := range all {
		p.kill()
	}

	h.group.Wait()
	h.cfg.HTTPClient.CloseIdleConnections()
	h.cfg.Client.CloseIdleConnections()
	return nil
}
