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

// Config is what a [Host] is made of. Its zero value is useful in a program that calls [Work].
type Config struct {
	// Command starts a worker: a program that calls [Work] with its standard input and output. Defaults to this program with
	// the argument [WorkerArg].
	Command []string

	// Env is the environment of workers. No script sees it. Defaults to an empty one.
	Env []string

	// Client is what scripts fetch with. Defaults to one that refuses private, loopback and link-local addresses.
	Client *http.Client

	// HTTPClient gets tools from their URL, which the operator chose. Defaults to one without a proxy and without an address guard.
	HTTPClient *http.Client

	MemoryLimit int64 // of a script, in bytes. Defaults to 64 MiB, at most 1 GiB.
	MaxOutput   int   // bytes of a result; what is longer is cut. Defaults to 1 MiB, at most 8 MiB.
	Workers     int   // processes at most; calls beyond them wait. Defaults to the number of CPUs, but at least 2.

	Logger *slog.Logger // Defaults to none.
}

// ErrClosed is the error of a Host after Close, in all its uses.
var ErrClosed = errors.New("the host of custom tools is closed")

const (
	loadTime  = 10 * time.Second       // for a tool, where the context gives more
	killTime  = 200 * time.Millisecond // from the word that a call should end to the end of its worker
	spare     = 2                      // processes that are kept: one for a call, and one for the case that it ends
	idleTime  = time.Minute            // until a process beyond those is ended
	maxFailed = 3                      // workers in a row that may end unproved before no spare one is started
)

// Host loads tools and runs their calls in worker processes. It is safe for concurrent use.
type Host struct {
	cfg    Config
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	group  sync.WaitGroup // every goroutine of the host
	calls  atomic.Uint64

	mu       sync.Mutex // guards what follows
	closed   bool
	programs map[string]*program // by id
	order    []*program          // those that are loaded, in the order of their loading
	all      map[*process]struct{}
	starting int
	failed   int        // workers in a row that ended without having answered once
	idle     []*process // the one used last at the end
	waiters  []chan *process
}

// New makes a Host. It starts no process before a tool is loaded.
func New(cfg Config) (*Host, error) {
	if len(cfg.Command) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find own program: %w", err)
		}
		cfg.Command = []string{self, WorkerArg}
	}
	cfg.MemoryLimit = cmp.Or(cfg.MemoryLimit, 64<<20)
	cfg.MaxOutput = cmp.Or(cfg.MaxOutput, 1<<20)
	cfg.Workers = cmp.Or(cfg.Workers, max(runtime.GOMAXPROCS(0), spare))
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	switch {
	case cfg.MemoryLimit < 1<<20 || cfg.MemoryLimit > 1<<30:
		return nil, fmt.Errorf("memory limit of %d bytes is not between 1 MiB and 1 GiB", cfg.MemoryLimit)
	case cfg.MaxOutput < 1 || cfg.MaxOutput > 8<<20:
		return nil, fmt.Errorf("result limit of %d bytes is not between 1 byte and 8 MiB", cfg.MaxOutput)
	case cfg.Workers < 1:
		return nil, fmt.Errorf("%d workers cannot run a tool", cfg.Workers)
	}
	if cfg.HTTPClient == nil {
		cfg.HTTPClient = &http.Client{Transport: outbound.Transport()}
	}
	if cfg.Client == nil {
		cfg.Client = outbound.Public(nil)
	}
	h := &Host{cfg: cfg, programs: map[string]*program{}, all: map[*process]struct{}{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h, nil
}

// Close ends all workers, and the calls in them with an error.
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
