package js

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/internal/child"
)

// process is a worker as the host sees it. Whoever acquired it may use it; one goroutine of its own reads what it writes.
type process struct {
	host   *Host
	child  *child.Process
	stdin  *os.File
	stdout *os.File
	stderr *head
	out    *frameWriter
	known  map[string]bool // programs that it was told; its user's
	unused *time.Timer
	proved atomic.Bool   // it has answered once
	ended  chan struct{} // closed when it is gone
	cause  error         // why; this and the next are written before ended is closed
	unread bool          // the end of what was written to it

	mu  sync.Mutex // guards job
	job *job       // what waits for an answer
}

// job is a call, or a load, in a process.
type job struct {
	id      uint64
	ctx     context.Context // of the fetches; ends with the job
	program *program        // nil for a load
	log     logWriter
	answer  chan reply
	fetches fetches
	heard   atomic.Bool // the worker said something since
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
		host: h, stdin: stdin, stdout: stdout, stderr: &head{}, out: &frameWriter{w: stdin},
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
	most := limits{Memory: uintptr(h.cfg.MemoryLimit), Output: h.cfg.MaxOutput} //nolint:gosec // New lets at most 1 GiB pass
	if err := p.out.write(frameSetup, most, ""); err != nil {
		p.kill() // the reader is not there yet, and will see it
	}
	return p, nil
}

// read takes in what the worker writes, until it has ended.
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
	if errors.Is(err, errFrame) {
		p.cause = err
	}
	if said := p.stderr.String(); said != "" {
		p.host.cfg.Logger.Warn("worker of custom tools ended", "cause", p.cause, "stderr", said)
	}
	p.host.gone(p) // first: who is told that it ended asks for another worker, which must not be this one
	close(p.ended)
}

func (p *process) frames() error {
	in := newFrameReader(p.stdout)
	for {
		kind, head, body, err := in.read()
		if err != nil {
			return err
		}
		p.mu.Lock()
		j := p.job
		p.mu.Unlock()
		if j == nil {
			continue // what it says after the end of a job
		}
		j.heard.Store(true)
		switch kind {
		case frameResult, frameBuilt:
			p.proved.Store(true)
			select {
			case j.answer <- reply{kind, append([]byte(nil), head...), string(body)}:
			default:
				return fmt.Errorf("%w: a second answer", errFrame)
			}
		case frameLog:
			err = decoded(head, func(l logHead) {
				if l.Call == j.id {
					j.log.write(l, string(body))
				}
			})
		case frameFetch:
			err = decoded(head, func(f fetchHead) { p.fetch(j, f, string(body)) })
		case frameGiveUp:
			err = decoded(head, func(f fetchHead) { j.fetches.giveUp(f.Fetch) })
		default:
			err = fmt.Errorf("%w: kind %q", errFrame, kind)
		}
		if err != nil {
			return err
		}
	}
}

// learn tells the worker a program, once.
func (p *process) learn(prog *program) error {
	if p.known[prog.id] {
		return nil
	}
	p.known[prog.id] = true
	return p.out.write(frameProgram, programHead{ID: prog.id}, prog.code)
}

// do writes a frame and waits for the answer. When ctx ends the worker is told, and killed when that does not help. The
// error is errNotTold where the worker has not seen the whole frame.
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
		return reply{}, fmt.Errorf("%w: %w", errNotTold, p.cause)
	}
	select {
	case r := <-j.answer:
		return r, nil
	case <-p.ended:
		if p.unread && !j.heard.Load() { // no answer to a fetch was written after the frame, nor, with ctx alive, a stop
			return reply{}, fmt.Errorf("%w: %w", errNotTold, p.cause)
		}
		return reply{}, p.cause
	}
}

var errNotTold = errors.New("the worker was not told")

// retry does again what no worker was told of: one that is given out may be about to end, killed while nobody used it.
func retry(ctx context.Context, do func() error) error {
	err := do()
	for more := 2; more > 0 && errors.Is(err, errNotTold) && ctx.Err() == nil; more-- {
		err = do()
	}
	return err
}

func (p *process) set(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.job = j
}

// stop tells the worker to end a job, and ends the worker when it has not done that in time.
func (p *process) stop(j *job, over <-chan struct{}) {
	told := make(chan struct{})
	go func() { // in a goroutine: the worker may have stopped reading
		defer close(told)
		_ = p.out.write(frameStop, stopHead{Call: j.id}, "")
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
	case <-told:
	case <-timer.C:
		p.kill()
		<-told
	}
}

// kill ends the process. The reader does the rest.
func (p *process) kill() { p.child.Kill() }

// head keeps the beginning of what is written to it.
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

// endFetches ends what a job has on the way. A worker that does not take an answer is ended.
func (p *process) endFetches(j *job) {
	timer := time.AfterFunc(killTime, p.kill)
	defer timer.Stop()
	j.fetches.end()
}
