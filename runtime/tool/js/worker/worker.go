// Package worker is the process in which tools in TypeScript or JavaScript are compiled and run.
// Only this package and the programs that call [Run] link the compiler (esbuild) and the engine
// (QuickJS). The host is package [github.com/seed93082962/agenthost/runtime/tool/js].
package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/sandbox"
	"github.com/seed93082962/agenthost/runtime/tool/js/internal/frame"
)

const (
	stopGrace      = 50 * time.Millisecond // from the abort signal to the first interrupt
	interruptEvery = 5 * time.Millisecond  // a call of the engine resets the interrupt
)

const maxMap = 4 << 20 // bytes of a source map; larger ones are dropped: errors then have no lines of the file

// Run is the main function of a worker. It returns at the end of stdin or at a malformed frame. The
// program must exit then: a script may still be running. Before it reads a source, Run confines the
// process, which can do nothing else afterwards: see [sandbox.ConfineWorker].
func Run(stdin io.Reader, stdout io.Writer) error {
	w := &worker{
		out: frame.NewWriter(stdout), around: sync.OnceValues(compileSurroundings),
		programs: map[string]*program{}, tasks: make(chan func(), 1024),
	}
	defer close(w.tasks)
	go w.work()
	in := frame.NewReader(stdin)
	for {
		kind, head, body, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err == nil {
			err = w.handle(kind, head, body)
		}

		if err != nil {
			return fmt.Errorf("read from host: %w", err)
		}
	}
}

// worker runs tasks sequentially in one goroutine. Another goroutine reads the frames of the host.
type worker struct {
	out    *frame.Writer
	around func() (surroundings, error)
	limits frame.Limits
	tasks  chan func()

	programs map[string]*program // used by the tasks only

	mu      sync.Mutex  // guards run and stopped
	run     *invocation // the running call
	stopped uint64      // a call that was stopped before its start
}

// program is a compiled tool file.
type program struct {
	frame.Program
	code  []byte
	ready *engine // for the next call; nil if there is none
}

func (w *worker) handle(kind byte, head, body []byte) error {
	text := string(body)
	switch kind {
	case frame.KindSetup:
		if err := json.Unmarshal(head, &w.limits); err != nil {
			return err
		}

		if err := limitProcess(w.limits); err != nil {
			return err
		}

		if err := sandbox.ConfineWorker(); err != nil {
			w.write(frame.KindUnconfined, struct{}{}, err.Error())
		}

		return nil
	case frame.KindBuild:
		return frame.Decode(head, func(h frame.Build) { w.tasks <- func() { w.build(h, text) } })
	case frame.KindName:
		return frame.Decode(head, func(h frame.Build) { w.tasks <- func() { w.name(h, text) } })
	case frame.KindProgram:
		return frame.Decode(head, func(h frame.Program) {
			w.tasks <- func() { w.programs[h.ID] = &program{Program: h, code: []byte(text)} }
		})
	case frame.KindWarm:
		return frame.Decode(head, func(h frame.Warm) { w.tasks <- func() { w.warm(h) } })
	case frame.KindCall:
		return frame.Decode(head, func(h frame.Call) { w.tasks <- func() { w.call(h, text) } })
	case frame.KindStop:
		return frame.Decode(head, func(h frame.Stop) {
			w.setStopped(h.Call)
			w.running(h.Call, (*invocation).stop)
		})
	case frame.KindFetched:
		return frame.Decode(head, func(h frame.Fetched) { w.running(h.Call, func(r *invocation) { r.fetched(h, body) }) })
	}

	return fmt.Errorf("%w: kind %q", frame.ErrMalformed, kind)
}

// running calls do with the running call, if it is the given one.
func (w *worker) running(call uint64, do func(*invocation)) {
	w.mu.Lock()
	r := w.run
	w.mu.Unlock()
	if r != nil && r.head.Call == call {
		do(r)
	}
}

func (w *worker) setRunning(r *invocation) {
	w.mu.Lock()
	w.run = r
	stopped := r != nil && w.stopped == r.head.Call
	w.mu.Unlock()
	if stopped {
		r.stop()
	}
}

func (w *worker) setStopped(call uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = call
}

// work runs the tasks until the channel is closed.
func (w *worker) work() {
	for task := range w.tasks {
		task()
	}

	for _, c := range w.programs {
		if c.ready != nil {
			c.ready.close()
		}
	}
}

// build compiles a file and runs it once to get its definition.
func (w *worker) build(h frame.Build, source string) {
	built, code, err := w.learn(h, source)
	if err != nil {
		built.Error = excerpt.Head(err.Error(), frame.MaxDefinition)
	}

	if len(built.Map.Mappings) > maxMap {
		built.Map = frame.SourceMap{}
	}

	w.write(frame.KindBuilt, built, string(code))
}

func (w *worker) learn(h frame.Build, source string) (frame.Built, []byte, error) {
	script, mappings, err := bundle(h.File, source)
	var built frame.Built
	if err != nil {
		return built, nil, err
	}

	lines := placesOf(mappings)
	code, err := compile("(function () {" + script + "\n})")
	if err != nil {
		return built, nil, errors.New(describe(err, lines, h.File))
	}

	s, err := w.newEngine()
	if err != nil {
		return built, nil, err
	}
	defer s.close()
	r := &invocation{worker: w, engine: s, head: frame.Call{Call: h.Call}}
	s.host = r.host
	switch err := s.load(code, w.limits.Output); {
	case err != nil:
		return built, nil, errors.New(describe(err, lines, h.File))
	case r.result == nil:
		return built, nil, errNoResult
	case r.result.IsError:
		return built, nil, errors.New(placed(r.text, r.stack, lines, h.File))
	}

	if err := json.Unmarshal([]byte(r.text), &built); err != nil {
		return built, nil, errors.New(h.File + ": name, description and inputSchema cannot be written as JSON")
	}

	built.Map = mappings
	return built, code, nil
}

// newEngine returns an engine for loading a file. It may use only a part of the memory, because
// several loaded engines exist at the same time.
func (w *worker) newEngine() (*engine, error) {
	around, err := w.around()
	if err != nil {
		return nil, err
	}

	return newEngine(around, max(w.limits.Memory/4, 4<<20))
}

// open returns an engine with a loaded file. The host kills the worker if that takes too long.
func (w *worker) open(c *program) (*engine, error) {
	s, err := w.newEngine()
	if err != nil {
		return nil, err
	}

	r := &invocation{worker: w, engine: s}
	s.host = r.host
	err = s.load(c.code, w.limits.Output)
	if err == nil && (r.result == nil || r.result.IsError) {
		err = fmt.Errorf("load the file again: %s", r.text)
	}

	if err != nil {
		s.close()
		return nil, err
	}

	s.vm.SetMemoryLimit(w.limits.Memory)
	return s, nil
}

// warm makes an engine for the next call of a program.
func (w *worker) warm(h frame.Warm) {
	if c := w.programs[h.Evict]; c != nil && c.ready != nil {
		c.ready.close()
		c.ready = nil
	}

	var err error
	if c := w.programs[h.Program]; c == nil {
		err = errUnknownProgram
	} else if c.ready == nil { // otherwise it was made for a call that ended early
		c.ready, err = w.open(c)
	}

	warmed := frame.Warmed{Call: h.Call}
	if err != nil {
		warmed.Error = excerpt.Head(err.Error(), frame.MaxDefinition)
	}

	w.write(frame.KindWarmed, warmed, "")
}

var errUnknownProgram = errors.New("the worker does not know the program")

func (w *worker) call(h frame.Call, input string) {
	c := w.programs[h.Program]
	if c == nil || c.ready == nil {
		w.write(frame.KindResult, frame.Result{Call: h.Call, IsError: true}, "the worker has no engine for the tool")
		return
	}

	s := c.ready
	c.ready = nil
	r := newRun(w, s, h)
	s.host = r.host
	w.setRunning(r)
	r.execute(input)
	w.setRunning(nil)
	close(r.over)
	if r.stack != "" {
		r.text = withStack(r.text, r.stack, placesOf(c.Map), c.File)
	}

	w.write(frame.KindResult, r.result, r.text)
	s.close()
}

// write sends a frame to the host. It fails only if the host has ended; then stdin ends too.
func (w *worker) write(kind byte, head any, body string) { _ = w.out.Write(kind, head, body) }
