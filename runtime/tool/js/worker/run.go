package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/runtime/tool/js/internal/frame"
)

const maxFetchHead = 1 << 20 // bytes of a request without its body

var (
	errNoResult   = errors.New("call() returned a promise that cannot settle: there is no pending timer or fetch")
	errDefinition = fmt.Errorf("name, description and inputSchema are larger than %d bytes", frame.MaxDefinition)
	errStopped    = errors.New("stopped")
)

// invocation is one call in a worker.
type invocation struct {
	worker *worker
	engine *engine
	head   frame.Call

	result *frame.Result // nil before the result
	text   string
	stack  string // of an exception

	fetches int // number of the last request
	waiting int // requests without a response
	answers chan reply

	stopped atomic.Bool
	stops   chan struct{} // closed when the host requests the end
	over    chan struct{} // closed when the call has ended
}

type reply struct {
	frame.Fetched
	body string
}

func newRun(w *worker, s *engine, h frame.Call) *invocation {
	return &invocation{
		worker: w, engine: s, head: h,
		answers: make(chan reply, 2*frame.MaxFetches), stops: make(chan struct{}), over: make(chan struct{}),
	}
}

// execute runs the call to its result.
func (r *invocation) execute(input string) {
	_, err := r.engine.call("start", input, r.head.Session, r.head.Run)
	var stopping bool
	var deadline <-chan time.Time
	for err == nil && r.result == nil {
		if r.stopped.Load() && !stopping {
			stopping = true
			deadline = time.After(stopGrace)
			_, err = r.engine.call("stop")
			continue
		}

		var wait time.Duration
		if wait, err = r.tick(); err != nil || r.result != nil {
			continue
		}

		if wait < 0 && r.waiting == 0 {
			err = errNoResult
			continue
		}

		var timer <-chan time.Time
		if wait >= 0 {
			timer = time.After(wait)
		}

		stops := r.stops
		if stopping {
			stops = nil
		}

		select {
		case a := <-r.answers:
			err = r.deliver(a)
		case <-timer:
		case <-stops:
		case <-deadline:
			err = errStopped
		}
	}

	if r.result == nil {
		r.result, r.text = &frame.Result{IsError: true}, err.Error()
	}

	r.result.Call = r.head.Call
}

// tick runs the timer that is due. It returns the time until the next one, or -1.
func (r *invocation) tick() (time.Duration, error) {
	next, err := r.engine.call("tick")
	if err != nil {
		return 0, err
	}

	switch ms := next.(type) {
	case int:
		if ms < 0 {
			return -1, nil
		}

		return time.Duration(ms) * time.Millisecond, nil
	case float64:
		return time.Duration(math.Ceil(ms)) * time.Millisecond, nil
	}

	return -1, nil
}

// stop aborts the script, and interrupts it until it has ended. It is safe for concurrent use.
func (r *invocation) stop() {
	if r.stopped.Swap(true) {
		return
	}

	close(r.stops)
	go func() {
		for wait := stopGrace; ; wait = interruptEvery {
			select {
			case <-r.over:
				return
			case <-time.After(wait):
				r.engine.interrupt()
			}
		}
	}()
}

// host implements the function that the prelude calls.
func (r *invocation) host(op string, args []any) (any, error) {
	switch op {
	case "result":
		text, _ := arg[string](args, 0)
		cut, _ := arg[bool](args, 1)
		r.text = excerpt.Head(text, r.worker.limits.Output) // the prelude counts characters
		r.result = &frame.Result{Truncated: cut || len(r.text) < len(text)}
	case "definition":
		r.result = &frame.Result{}
		if r.text, _ = arg[string](args, 0); len(r.text) > frame.MaxDefinition {
			r.result.IsError, r.text = true, errDefinition.Error()
		}
	case "error":
		text, _ := arg[string](args, 0)
		r.result, r.text = &frame.Result{IsError: true}, text
		r.stack, _ = arg[string](args, 1)
	case "log":
		level, _ := arg[string](args, 0)
		text, _ := arg[string](args, 1)
		r.worker.write(frame.KindLog, frame.Log{Call: r.head.Call, Level: level}, text)
	case "fetch":
		return r.fetch(args)
	case "giveUp":
		r.giveUp(args)
	default:
		return nil, fmt.Errorf("unknown operation %q", op)
	}

	return nil, nil
}

func arg[T any](args []any, i int) (T, bool) {
	var ok bool
	var value T
	if i < len(args) {
		value, ok = args[i].(T)
	}

	return value, ok
}

// fetch sends a request to the host and returns its number.
func (r *invocation) fetch(args []any) (any, error) {
	text, _ := arg[string](args, 0)
	body, _ := arg[string](args, 1)
	binary, _ := arg[bool](args, 2)
	var h frame.Fetch
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return nil, fmt.Errorf("fetch failed: %w", err)
	}

	if binary {
		body = bytesOfBinary(body)
	}

	if len(text) > maxFetchHead {
		return nil, fmt.Errorf("fetch failed: address and headers are limited to %d bytes", maxFetchHead)
	}

	if len(body) > frame.MaxFetchBody {
		return nil, fmt.Errorf("fetch failed: a body is limited to %d bytes", frame.MaxFetchBody)
	}

	r.fetches++
	r.waiting++
	h.Call, h.Fetch = r.head.Call, r.fetches
	r.worker.write(frame.KindFetch, h, body)
	return r.fetches, nil
}

func (r *invocation) giveUp(args []any) {
	if id, ok := arg[int](args, 0); ok {
		r.waiting--
		r.worker.write(frame.KindGiveUp, frame.Fetch{Call: r.head.Call, Fetch: id}, "")
	}
}

// fetched receives a response from the host. The reading goroutine calls it.
func (r *invocation) fetched(h frame.Fetched, body []byte) {
	select {
	case r.answers <- reply{h, string(body)}:
	default: // more responses than requests
	}
}

// deliver passes a response to the script.
func (r *invocation) deliver(a reply) error {
	text, err := json.Marshal(a.Fetched)
	if err != nil {
		return err
	}

	binary := !utf8.ValidString(a.body)
	if binary {
		a.body = binaryOfBytes(a.body)
	}

	known, err := r.engine.call("fetched", string(text), a.body, binary)
	if known == true {
		r.waiting--
	}

	return err
}

// binaryOfBytes encodes bytes as a string with one byte in each character: the engine accepts only
// text.
func binaryOfBytes(bytes string) string {
	var b strings.Builder
	for i := range len(bytes) {
		b.WriteRune(rune(bytes[i]))
	}

	return b.String()
}

func bytesOfBinary(text string) string {
	bytes := make([]byte, 0, len(text))
	for _, c := range text {
		bytes = append(bytes, byte(c&0xff))
	}

	return string(bytes)
}
