package js

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// WorkerArg is the one argument of a worker: a program that embeds a [Host] calls [Work] when it is started with it.
const WorkerArg = "agenthost-js-worker"

const (
	// maxWarm bounds the sandboxes of a worker that wait for a call. Each has 0.3 MB, and what the tool's file made when it
	// was loaded, which is a quarter of the script memory at most.
	maxWarm = 8

	stopGrace      = 50 * time.Millisecond // from the abort signal to the first interrupt
	interruptEvery = 5 * time.Millisecond  // each entry of the engine forgets about the last one
	warmTime       = 2 * time.Second       // for a file that was loaded before, and that does more this time
)

// Work is the main function of a worker. It ends when stdin does, or with the first thing there that is no frame. The
// program ends with it: a script may still be running.
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

// worker runs one task after another in one goroutine, while another one reads what the host has to say.
type worker struct {
	out    *frameWriter
	around func() (surroundings, error)
	limits limits
	tasks  chan func()

	programs map[string]*code // the tasks' alone, as all that follows
	warm     []*code          // those with a sandbox, the one used last at the end

	mu      sync.Mutex // guards run and stopped
	run     *run       // the call that runs
	stopped uint64     // a call that was stopped before it ran
}

// code is a tool's file, compiled.
type code struct {
	bytes []byte
	ready *sandbox // waits for a call; nil if there is none
}

func (w *worker) handle(kind byte, head, body []byte) error {
	text := string(body)
	switch kind {
	case frameSetup:
		if err := json.Unmarshal(head, &w.limits); err != nil {
			return err
		}
		return limitProcess(w.limits.Memory)
	case frameBuild:
		return decoded(head, func(h buildHead) { w.tasks <- func() { w.build(h, text) } })
	case frameProgram:
		return decoded(head, func(h programHead) {
			w.tasks <- func() {
				c := &code{bytes: []byte(text)}
				w.programs[h.ID] = c
				w.rewarm(c)
			}
		})
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

// running does something with the call that runs, if it is this one.
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

// work runs the tasks, until there are no more.
func (w *worker) work() {
	for task := range w.tasks {
		task()
	}
	for _, c := range w.warm {
		if c.ready != nil {
			c.ready.close()
		}
	}
}

// build compiles a file, and runs it once to learn what it is.
func (w *worker) build(h buildHead, source string) {
	answer, code, err := w.learn(h, source)
	if err != nil {
		answer.Error = err.Error()
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
	s, err := w.newSandbox()
	if err != nil {
		return answer, nil, err
	}
	defer s.close()
	r := &run{worker: w, sandbox: s, head: callHead{Call: h.Call}}
	s.host = r.host
	switch err := s.load(code, w.limits.Output); {
	case err != nil:
		return answer, nil, errors.New(describe(err, lines, h.File))
	case r.result == nil:
		return answer, nil, errNoResult
	case r.result.IsError:
		return answer, nil, errors.New(withStack(r.text, r.result.Stack, lines, h.File))
	}
	if err := json.Unmarshal([]byte(r.text), &answer); err != nil {
		return answer, nil, fmt.Errorf("read what the file exports: %w", err)
	}
	answer.Map = mappings
	return answer, code, nil
}

// newSandbox makes a sandbox that a file may be loaded in, with a part of the memory: many that are loaded wait side by side.
func (w *worker) newSandbox() (*sandbox, error) {
	around, err := w.around()
	if err != nil {
		return nil, err
	}
	return newSandbox(around, max(w.limits.Memory/4, 4<<20))
}

// open makes a sandbox for a tool, or gives the one that waits.
func (w *worker) open(c *code) (*sandbox, error) {
	if s := c.ready; s != nil {
		c.ready = nil
		return s, nil
	}
	s, err := w.newSandbox()
	if err != nil {
		return nil, err
	}
	r := &run{worker: w, sandbox: s}
	s.host = r.host
	timer := time.AfterFunc(warmTime, func() { s.interrupt() })
	err = s.load(c.bytes, w.limits.Output)
	timer.Stop()
	if err == nil && (r.result == nil || r.result.IsError) {
		err = fmt.Errorf("load the tool again: %s", r.text)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.vm.SetMemoryLimit(w.limits.Memory)
	return s, nil
}

// rewarm makes a sandbox ready for the next call of a tool. One that cannot be made is told to that call.
func (w *worker) rewarm(c *code) {
	for i, other := range w.warm {
		if other == c {
			w.warm = append(w.warm[:i], w.warm[i+1:]...)
			break
		}
	}
	if len(w.warm) >= maxWarm {
		if s := w.warm[0].ready; s != nil {
			s.close()
			w.warm[0].ready = nil
		}
		w.warm = append(w.warm[:0], w.warm[1:]...)
	}
	if s, err := w.open(c); err == nil {
		c.ready = s
		w.warm = append(w.warm, c)
	}
}

func (w *worker) call(h callHead, input string) {
	c := w.programs[h.Program]
	if c == nil {
		w.write(frameResult, resultHead{Call: h.Call, IsError: true}, "the worker does not know the tool")
		return
	}
	s, err := w.open(c)
	if err != nil {
		w.write(frameResult, resultHead{Call: h.Call, IsError: true}, err.Error())
		return
	}
	r := newRun(w, s, h)
	s.host = r.host
	w.setRunning(r)
	r.execute(input)
	w.setRunning(nil)
	close(r.over)
	w.write(frameResult, r.result, r.text)
	// The kernel likes to run the host where the worker runs. With something to do the worker would stay there, and the
	// result would wait for as long as the next sandbox takes.
	yield()
	s.close()
	w.rewarm(c)
}

// write tells the host. When that fails the host is gone, and the end of stdin says so too.
func (w *worker) write(kind byte, head any, body string) { _ = w.out.write(kind, head, body) }
