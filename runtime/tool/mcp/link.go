package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed93082962/agenthost/internal/logquota"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// maxMessage bounds one message of a server, in bytes.
const maxMessage = 16 << 20

// drainTime bounds the wait for the end of a stream after the response. A connection can only be
// reused after its stream was read to the end.
const drainTime = time.Second

// pingTime is the time that a server may take to respond to a ping.
const pingTime = 3 * time.Second

var (
	errLost         = errors.New("the connection was lost")
	errUnresponsive = errors.New("the server no longer responds")
)

// endpoint is the other side of a link: a process, or an HTTP server.
type endpoint interface {
	transport() sdk.Transport

	// done returns a channel that is closed when the other side has ended, or nil for an HTTP
	// server.
	done() <-chan struct{}

	// explain adds the state of the other side to an error of connecting.
	explain(err error) error

	// terminate ends the other side and waits for its end. It is called before session.Close.
	terminate()

	// release releases the remaining resources. It is called after session.Close.
	release()
}

// link is one connection.
type link struct {
	session *sdk.ClientSession // nil if connecting failed
	life    context.Context    // of the link, and so of all its calls and requests
	end     context.CancelCauseFunc
	calls   sync.WaitGroup
	filter  *filter

	mu   sync.Mutex
	over bool            // no more calls start, so that calls can be waited for; guarded by mu
	runs map[string]*use // runs with calls in progress, by id; guarded by mu
	last *use            // of the last call; guarded by mu

	stale    atomic.Bool   // the tools have changed
	probing  chan struct{} // closed at the end of the current probe; guarded by mu
	listing  chan struct{} // a semaphore for relist
	relistAt time.Time     // the earliest time to list again after a failure; guarded by listing
}

// use is the use of a link by a run.
type use struct {
	run   string // the id of the run
	log   *logquota.Quota
	calls int       // in progress
	ended time.Time // the end of the last call
}

// use records a call until the returned function is called.
func (l *link) use(call tool.Call) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.runs[call.RunID]
	if u == nil {
		u = &use{run: call.RunID, log: call.Log}
		l.runs[call.RunID] = u
	}

	u.calls++
	l.last = u
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		u.ended = time.Now()
		if u.calls--; u.calls == 0 {
			delete(l.runs, u.run)
		}
	}
}

// lateTime is the time after a call in which stderr is that of its run: a server may write to
// stderr before it responds, and the response be read first.
const lateTime = 10 * time.Second

// user returns the only run that uses the link, or nil.
func (l *link) user() *use {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range l.runs {
		if len(l.runs) == 1 {
			return u
		}
	}

	if len(l.runs) == 0 && l.last != nil && time.Since(l.last.ended) < lateTime {
		return l.last
	}

	return nil
}

// begin runs call in a goroutine of the link. It reports false if the link has ended.
func (l *link) begin(call func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.calls.Go(call)
	}

	return !l.over
}

// probe pings a server after a call has timed out or was refused. Without a response the link ends:
// if the server executes calls sequentially, all later calls would time out too. It also ends if
// the ping is refused: the server may not know the session.
func (l *link) probe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.probing != nil {
		return
	}

	answered := make(chan struct{})
	l.probing = answered
	l.calls.Go(func() {
		late := time.AfterFunc(pingTime, func() { l.end(errUnresponsive) })
		defer late.Stop()
		if err := l.session.Ping(l.life, nil); isRefusal(err) { // any other response is sufficient, even an error
			l.end(err)
		}

		l.mu.Lock()
		defer l.mu.Unlock()
		l.probing = nil
		close(answered)
	})
}

// awaitProbe waits for the end of the current probe.
func (l *link) awaitProbe(ctx context.Context) error {
	l.mu.Lock()
	probing := l.probing
	l.mu.Unlock()
	if probing != nil {
		select {
		case <-probing:
		case <-l.life.Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}

	if l.life.Err() != nil {
		return fmt.Errorf("%w: %w", sdk.ErrConnectionClosed, context.Cause(l.life))
	}

	return nil
}

var errPanic = errors.New("a response of the server could not be processed")

// contain calls f and returns errPanic if it panics: the SDK decodes the result of a call in the
// goroutine of its caller.
func contain[T any](log *slog.Logger, f func() (T, error)) (result T, err error) {
	defer func() {
		if v := recover(); v != nil {
			log.Error("a response of an MCP server caused a panic", "panic", v, "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	return f()
}

// do calls send and returns its result, or the cause of the end of ctx or of the link. It does not
// wait for a send that is blocked in a write, which ends only with the link.
func do[T any](ctx context.Context, l *link, send func(context.Context) (T, error)) (T, error) {
	inner, end := context.WithCancel(context.WithoutCancel(ctx)) // it has the values of the caller, and ends with the link
	forget := context.AfterFunc(l.life, end)
	cancel := func() { forget(); end() }
	type outcome struct {
		answer T
		err    error
	}
	done := make(chan outcome, 1)
	var answer T
	if !l.begin(func() {
		answer, err := contain(l.filter.log, func() (T, error) { return send(inner) })
		if errors.Is(err, errPanic) {
			l.end(err)
		}

		done <- outcome{answer, err}
	}) {
		cancel()
		return answer, fmt.Errorf("%w: %w", sdk.ErrConnectionClosed, context.Cause(l.life))
	}

	select {
	case o := <-done:
		time.AfterFunc(drainTime, cancel)
		if o.err != nil && l.life.Err() != nil && !notSent(o.err) { // return the cause, not its consequence
			o.err = context.Cause(l.life)
		}

		return o.answer, o.err
	case <-ctx.Done():
		cancel()
		return answer, context.Cause(ctx)
	case <-l.life.Done():
		cancel()
	}

	select { // a blocked write ends with the link, and its error shows whether the message was sent
	case o := <-done:
		if o.err == nil || notSent(o.err) {
			return o.answer, o.err
		}

		return answer, context.Cause(l.life)
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
}
