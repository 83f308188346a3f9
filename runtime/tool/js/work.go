package js

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/sandbox"
)

// WorkerArg is the argument of a worker. A program with a [Host] calls [Work] if it is started with
// it.
const WorkerArg = "agenthost-js-worker"

const (
	stopGrace      = 50 * time.Millisecond // from the abort signal to the first interrupt
	interruptEvery = 5 * time.Millisecond  // a call of the engine resets the interrupt
)

// Work is the main function of a worker. It returns at the end of stdin or at a malformed frame.
// The program must exit then: a script may still be running. Before it reads a source, Work
// confines the process, which can do nothing else afterwards: see [sandbox.ConfineWorker].
func Work(stdin io.Reader, stdout io.Writer) error {
	w := &worker{out: &frameWriter{w: stdout}, around: sync.OnceValues(compileSurroundings), programs: map[string]*code{}, tasks: make(chan func(), 1024)}
	defer close(w.tasks)
	go w.work()
	stdin, err := pollable(stdin)
	if err != nil {
		return err
	}
	in := newFrameReader(stdin)
	for {
		kind, head, body, err := in.read()
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
	out    *frameWriter
	around func() (surroundings, error)
	limits limits
	tasks  chan func()

	programs map[string]*code // used by the tasks only

	mu      sync.Mutex // guards run and stopped
	run     *run       // the running call
	stopped uint64     // a call that was stopped before its start
}

// code is a compiled tool file.
type code struct {
	bytes []byte
	ready *engine // for the next call; nil if there is none
}

func (w *worker) handle(kind byte, head, body []byte) error {
	text := string(body)
	switch kind {
	case frameSetup:
		if err := json.Unmarshal(head, &w.limits); err != nil {
			return err
		}
		if err := limitProcess(w.limits); err != nil {
			return err
		}
		if err := sandbox.ConfineWorker(); err != nil {
			w.write(frameUnconfined, struct{}{}, err.Error())
		}
		return nil
	case frameBuild:
		return decoded(head, func(h buildHead) { w.tasks <- func() { w.build(h, text) } })
	case frameProgram:
		return decoded(head, func(h programHead) {
			w.tasks <- func() { w.programs[h.ID] = &code{bytes: []byte(text)} }
		})
	case frameWarm:
		return decoded(head, func(h warmHead) { w.tasks <- func() { w.warm(h) } })
	case frameCall:
		return decoded(head, func(h callHead) { w.tasks <- func() { w.call(h, text) } })
	case frameStop:
		return decoded(head, func(h stopHead) {
			w.setStopped(h.Call)
			w.running(h.Call, (*run).stop)
		})
	case frameFetched:
		return decoded(head, func(h fetchAnswer) { w.running(h.Call, func(r *run) { r.fetched(h, body) }) })
	}
	return fmt.Errorf("%w: kind %q", errFrame, kind)
}

func decoded[Head any](text []byte, do func(Head)) error {
	var head Head
	if err := json.Unmarshal(text, &head); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	do(head)
	return nil
}

// running calls do with the running call, if it is the given one.
func (w *worker) running(call uint64, do func(*run)) {
	w.mu.Lock()
	r := w.run
	w.mu.Unlock()
	if r != nil && r.head.Call == call {
		do(r)
	}
}

func (w *worker) setRunning(r *run) {
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
func (w *worker) build(h buildHead, source string) {
	answer, code, err := w.learn(h, source)
	if err != nil {
		answer.Error = firstLine(err.Error())
	}
	if h.NoCode {
		code, answer.Map = nil, sourceMap{}
	}
	w.write(frameBuilt, answer, string(code))
}

func (w *worker) learn(h buildHead, source string) (answer buildAnswer, code []byte, err error) {
	script, mappings, err := bundle(h.File, source)
	if err != nil {
		return answer, nil, err
	}
	lines := mappings.places()
	if code, err = compile("(function () {" + script + "\n})"); err != nil {
		return answer, nil, errors.New(describe(err, lines, h.File))
	}
	s, err := w.newEngine()
	if err != nil {
		return answer, nil, err
	}
	defer s.close()
	r := &run{worker: w, engine: s, head: callHead{Call: h.Call}}
	s.host = r.host
	switch err := s.load(code, w.limits.Output); {
	case err != nil:
		return answer, nil, errors.New(describe(err, lines, h.File))
	case r.result == nil:
		return answer, nil, errNoResult
	case r.result.IsError:
		return answer, nil, errors.New(placed(r.text, r.result.Stack, lines, h.File))
	}
	if err := json.Unmarshal([]byte(r.text), &answer); err != nil {
		return answer, nil, errors.New(h.File + ": name, description and inputSchema cannot be written as JSON")
	}
	answer.Map = mappings
	return answer, code, nil
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
func (w *worker) open(c *code) (*engine, error) {
	s, err := w.newEngine()
	if err != nil {
		return nil, err
	}
	r := &run{worker: w, engine: s}
	s.host = r.host
	err = s.load(c.bytes, w.limits.Output)
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
func (w *worker) warm(h warmHead) {
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
	warmed := warmedHead{Call: h.Call}
	if err != nil {
		warmed.Error = excerpt.Head(err.Error(), maxDefinition)
	}
	w.write(frameWarmed, warmed, "")
}

var errUnknownProgram = errors.New("the worker does not know the program")

func (w *worker) call(h callHead, input string) {
	c := w.programs[h.Program]
	if c == nil || c.ready == nil {
		w.write(frameResult, resultHead{Call: h.Call, IsError: true}, "the worker has no engine for the tool")
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
	w.write(frameResult, r.result, r.text)
	// The kernel tends to schedule the host on the CPU of the worker. The result would wait there
	// while the worker continues.
	yield()
	s.close()
}

// write sends a frame to the host. It fails only if the host has ended; then stdin ends too.
func (w *worker) write(kind byte, head any, body string) { _ = w.out.write(kind, head, body) }
