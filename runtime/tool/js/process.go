package js

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/internal/child"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/tool/js/internal/frame"
)

// process is a worker on the host side. The goroutine that acquired it uses it. Another goroutine
// reads its frames.
type process struct {
	host   *Host
	child  *child.Process
	stdin  *os.File
	stdout *os.File
	stderr *head
	out    *frame.Writer
	known  map[string]bool // programs that were sent to it; used by its user
	ready  []*program      // programs with an engine, the oldest first; used by its user
	last   *program        // of the last call; used by its user
	unused *time.Timer
	proved atomic.Bool   // the worker has responded
	ended  chan struct{} // closed when it has ended
	cause  error         // of its end; this and unread are set before ended is closed
	unread bool          // the last bytes written to it were not read

	mu  sync.Mutex // guards job
	job *job       // waits for a response
}

// job is a call, a build or a warm-up in a process.
type job struct {
	id      uint64
	ctx     context.Context // of the fetches; ends with the job
	program *program        // nil for a build
	log     logWriter
	answer  chan reply
	fetches fetches
	heard   atomic.Bool // the worker has written a frame since
}

type reply struct {
	kind byte
	head []byte
	body string
}

// newProcess starts a worker.
func (h *Host) newProcess() (*process, error) {
	theirIn, stdin, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}

	stdout, theirOut, err := os.Pipe()
	if err != nil {
		_ = theirIn.Close()
		_ = stdin.Close()
		return nil, fmt.Errorf("start worker: %w", err)
	}

	p := &process{
		host: h, stdin: stdin, stdout: stdout, stderr: &head{}, out: frame.NewWriter(stdin),
		known: map[string]bool{}, ended: make(chan struct{}),
	}
	cmd := &exec.Cmd{
		Path: h.cfg.Command[0], Args: h.cfg.Command, Env: append([]string{"TZ=UTC", "GOTRACEBACK=none"}, h.cfg.Env...),
		Stdin: theirIn, Stdout: theirOut, Stderr: p.stderr, Dir: "/",
	}
	p.child, err = child.Start(cmd)
	_ = theirIn.Close()
	_ = theirOut.Close()
	if err != nil {
		_ = stdin.Close()
		_ = stdout.Close()
		return nil, fmt.Errorf("start worker: %w", err)
	}

	most := frame.Limits{Memory: uintptr(h.cfg.MemoryLimit), Output: h.cfg.MaxOutput} // New accepts at most 1 GiB
	if h.parses {
		most.CPU = seconds(h.limits.build)
	}

	if err := p.out.Write(frame.KindSetup, most, ""); err != nil {
		p.kill() // the reader, which is started later, reports the end
	}

	return p, nil
}

// read reads the frames of the worker until it has ended.
func (p *process) read() {
	err := p.frames()
	p.kill()
	<-p.child.Done()
	p.unread = unread(p.stdin)
	_ = p.stdin.Close()
	_ = p.stdout.Close()
	p.cause = errors.New("the worker ended")
	if exit := p.child.Err(); exit != nil {
		p.cause = fmt.Errorf("the worker ended: %w", exit)
	}

	if errors.Is(err, frame.ErrMalformed) {
		p.cause = err
	}

	if said := p.stderr.String(); said != "" {
		p.host.cfg.Logger.Warn("worker of custom tools ended", "cause", p.cause, "stderr", said)
	}

	p.host.gone(p) // before ended is closed: the next acquire must not return this process
	close(p.ended)
}

func (p *process) frames() error {
	in := frame.NewReader(p.stdout)
	if p.host.parses {
		in = frame.NewReader(io.LimitReader(p.stdout, maxNamed))
	}

	for {
		kind, head, body, err := in.Read()
		if err != nil {
			return err
		}

		if kind == frame.KindUnconfined {
			p.host.unconfined.Do(func() {
				p.host.cfg.Logger.Warn("workers of custom tools are not confined by the kernel", "err", excerpt.Head(string(body), 1<<10))
			})
			continue
		}

		p.mu.Lock()
		j := p.job
		p.mu.Unlock()
		if j == nil {
			continue // after the end of a job
		}

		j.heard.Store(true)
		if p.host.parses && kind != frame.KindBuilt {
			return fmt.Errorf("%w: kind %q, and nothing runs", frame.ErrMalformed, kind)
		}

		switch kind {
		case frame.KindResult, frame.KindBuilt, frame.KindWarmed:
			if !p.proved.Swap(true) {
				p.host.workerProved()
			}

			select {
			case j.answer <- reply{kind, append([]byte(nil), head...), string(body)}:
			default:
				return fmt.Errorf("%w: a second response", frame.ErrMalformed)
			}
		case frame.KindLog:
			err = frame.Decode(head, func(l frame.Log) {
				if l.Call == j.id {
					j.log.write(l, string(body))
				}
			})
		case frame.KindFetch:
			err = frame.Decode(head, func(f frame.Fetch) { p.fetch(j, f, string(body)) })
		case frame.KindGiveUp:
			err = frame.Decode(head, func(f frame.Fetch) { j.fetches.giveUp(f.Fetch) })
		default:
			err = fmt.Errorf("%w: kind %q", frame.ErrMalformed, kind)
		}

		if err != nil {
			return err
		}
	}
}

// learn sends a program to the worker, once.
func (p *process) learn(prog *program) error {
	if p.known[prog.id] {
		return nil
	}

	p.known[prog.id] = true
	return p.out.Write(frame.KindProgram, frame.Program{ID: prog.id, File: prog.file, Map: prog.source}, prog.code)
}

// do sends a frame and waits for the response. When ctx ends, it requests the end of the job, and
// kills the worker if that fails. The error is errNotSent if the worker has not read the whole
// frame.
func (p *process) do(ctx context.Context, j *job, write func() error) (reply, error) {
	var cancel context.CancelFunc
	j.ctx, cancel = context.WithCancel(ctx)
	j.answer = make(chan reply, 1)
	p.set(j)
	over, stopped := make(chan struct{}), make(chan struct{})
	unlisten := context.AfterFunc(ctx, func() {
		defer close(stopped)
		p.stop(j, over)
	})
	defer func() {
		p.set(nil)
		close(over)
		if !unlisten() {
			<-stopped
		}

		cancel()
		p.endFetches(j)
	}()
	if err := write(); err != nil {
		p.kill()
		<-p.ended
		return reply{}, fmt.Errorf("%w: %w", errNotSent, p.cause)
	}

	select {
	case r := <-j.answer:
		return r, nil
	case <-p.ended:
		if p.unread && !j.heard.Load() { // no other frame was written after this one
			return reply{}, fmt.Errorf("%w: %w", errNotSent, p.cause)
		}

		return reply{}, p.cause
	}
}

var errNotSent = errors.New("the worker did not read the request")

// retry repeats do if its worker has not read the request: an idle worker can have been killed.
func retry(ctx context.Context, do func() error) error {
	err := do()
	for more := 2; more > 0 && errors.Is(err, errNotSent) && ctx.Err() == nil; more-- {
		err = do()
	}

	return err
}

func (p *process) set(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.job = j
}

// stop requests the end of a job, and kills the worker if the job does not end in time.
func (p *process) stop(j *job, over <-chan struct{}) {
	sent := make(chan struct{})
	go func() { // the worker may no longer read
		defer close(sent)
		_ = p.out.Write(frame.KindStop, frame.Stop{Call: j.id}, "")
	}()
	timer := time.NewTimer(killTime)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
		p.mu.Lock()
		if p.job == j {
			p.kill()
		}

		p.mu.Unlock()
		timer.Reset(killTime)
	}

	select {
	case <-sent:
	case <-timer.C:
		p.kill()
		<-sent
	}
}

// kill terminates the process. The reader cleans up.
func (p *process) kill() { p.child.Kill() }

// head stores the beginning of an output.
type head struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Write(b[:min(len(b), max(0, 2048-h.text.Len()))])
	return len(b), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.TrimSpace(h.text.String())
}

// endFetches ends the requests of a job. A worker that does not read the responses is killed.
func (p *process) endFetches(j *job) {
	timer := time.AfterFunc(killTime, p.kill)
	defer timer.Stop()
	j.fetches.end()
}

// seconds returns a limit for RLIMIT_CPU: a worker that loads for a time on two processors. It
// holds while this process is stopped, and cannot end the worker.
func seconds(load time.Duration) uint64 { return uint64(math.Ceil(2 * load.Seconds())) }

// endReason returns the reason why a worker has ended that was loading a file, from what it wrote
// to stderr. [Process.ended] is closed.
func (p *process) endReason() string {
	said := p.stderr.String()
	for _, limit := range []struct{ signs, reason string }{
		{"stack overflow|stack exceeds", "the limit of the stack was reached: it is nested too deeply"},
		{"out of memory|cannot allocate|failed to allocate|cannot reserve|newosproc", "the limit of memory was reached"},
	} {
		for sign := range strings.SplitSeq(limit.signs, "|") {
			if strings.Contains(said, sign) {
				return limit.reason
			}
		}
	}

	return p.cause.Error()
}
