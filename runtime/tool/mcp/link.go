package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage bounds one message of a server, in bytes.
const maxMessage = 16 << 20

// initializing is the last protocol version that begins with initialize. Every server knows that beginning; servers of
// before 2026 may end when they get the newer server/discover first.
const initializing = "2025-11-25"

// drain is how long the rest of an answer's stream may take after the answer: read to its end, the connection below
// can be used again.
const drain = time.Second

// pong is how long a server may take to say that it is there.
const pong = 3 * time.Second

var (
	errGone   = errors.New("the connection was lost")
	errWedged = errors.New("it does not answer any more")
)

// carrier is what is below a link: a process, or requests.
type carrier interface {
	transport() sdk.Transport

	// done is closed when the other side has gone; nil where only requests can tell.
	done() <-chan struct{}

	// explain adds what is known of the other side to an error of connecting.
	explain(err error) error

	// hangUp ends the other side and waits for it; session.Close comes after it.
	hangUp()

	// release lets go of what is left, after session.Close.
	release()
}

// link is one connection.
type link struct {
	session *sdk.ClientSession // nil where connecting failed
	life    context.Context    // ends when the link does: with it every call and every request
	end     context.CancelCauseFunc
	calls   sync.WaitGroup

	mu   sync.Mutex
	over bool // no call begins any more, so that calls can be waited for; guarded by mu

	stale    atomic.Bool   // the tools have changed
	probing  chan struct{} // closed when the server was found to answer, or the link to be of no use; guarded by mu
	listing  chan struct{} // held by who lists them again
	relistAt time.Time     // after a listing that failed; guarded by listing
}

// caught is a transport that remembers its connection: the SDK does not close it after every failure.
type caught struct {
	sdk.Transport
	conn sdk.Connection
}

func (c *caught) Connect(ctx context.Context) (conn sdk.Connection, err error) {
	c.conn, err = c.Transport.Connect(ctx)
	return c.conn, err
}

func (c *caught) close() {
	if c.conn != nil {
		c.conn.Close() //nolint:errcheck // whoever goes has nobody to tell
	}
}

// dial makes a link and lists its tools.
func (s *server) dial(ctx context.Context) (*link, []spec, error) {
	l, err := s.dialAs(ctx, initializing)
	if refused(err) { // then it may know the newest beginning alone
		newest, second := s.dialAs(ctx, "")
		if second == nil {
			l, err = newest, nil
		} else {
			s.log.Debug("the newest protocol was refused too", "error", s.words(second))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	specs, err := s.list(ctx, l)
	if err != nil {
		l.end(err)
		return nil, nil, fmt.Errorf("list tools: %w", err)
	}
	return l, specs, nil
}

// refused says that a server is there and does not take initialize.
func refused(err error) bool {
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return false
	}
	switch answer.Code {
	case jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidRequest, jsonrpc.CodeInvalidParams, sdk.CodeUnsupportedProtocolVersion:
		return true
	}
	return false
}

func (s *server) dialAs(ctx context.Context, version string) (*link, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l := &link{listing: make(chan struct{}, 1)}
	l.life, l.end = context.WithCancelCause(context.Background())
	c, err := s.carry(l)
	if err != nil {
		l.end(err)
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { l.end(context.Cause(ctx)) })
	carried := &caught{Transport: c.transport()}
	l.session, err = s.client(l).Connect(l.life, carried, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if !stop() || l.life.Err() != nil { // the SDK would say "context canceled" of any end of the link
		<-l.life.Done()
		err = context.Cause(l.life)
	}
	if err != nil {
		err = c.explain(err)
		l.end(err)
	}
	s.work.Go(func() { s.attend(l, c, carried) }) // also after a failure: who waits for it need not wait for the clearing up
	if err != nil {
		return nil, err
	}
	return l, nil
}

// attend waits for the end of a link from any side, and clears up.
func (s *server) attend(l *link, c carrier, carried *caught) {
	if l.session != nil {
		closed := make(chan error, 1)
		s.work.Go(func() { closed <- l.session.Wait() })
		select {
		case err := <-closed:
			if err != nil { // nil: it went without a word
				l.end(err)
			}
		case <-c.done():
		case <-l.life.Done():
		}
	}
	l.end(errGone)
	s.log.Debug("the connection to an MCP server has ended", "cause", s.words(context.Cause(l.life)))
	c.hangUp()
	if l.session != nil {
		l.session.Close() //nolint:errcheck // whoever goes has nobody to tell
	}
	carried.close()
	c.release()
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.calls.Wait()
}

// begin runs call beside its caller, unless the link is cleared up already.
func (l *link) begin(call func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.calls.Go(call)
	}
	return !l.over
}

// probe asks a server that let a call run out of its time whether it answers at all. One that does not is hung up on:
// a server that does one thing at a time would let every call after it run out of time too.
func (l *link) probe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.probing != nil {
		return
	}
	answered := make(chan struct{})
	l.probing = answered
	l.calls.Go(func() {
		late := time.AfterFunc(pong, func() { l.end(errWedged) })
		defer late.Stop()
		//nolint:errcheck // any answer is one, a refusal too; and without one the link ends, which ends this
		l.session.Ping(l.life, nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.probing = nil
		close(answered)
	})
}

// sound waits while the link is probed.
func (l *link) sound(ctx context.Context) error {
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

// client is one for each link, so that what it is told is about that link.
func (s *server) client(l *link) *sdk.Client {
	client := sdk.NewClient(&sdk.Implementation{Name: s.cfg.Name, Version: s.cfg.Version}, &sdk.ClientOptions{
		Capabilities:           &sdk.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { l.stale.Store(true) },
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
	})
	client.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "ping" || strings.HasPrefix(method, "notifications/") {
				s.log.Debug("a message of an MCP server", "method", method)
				return next(ctx, method, req)
			}
			s.log.Debug("a request of an MCP server was refused", "method", method)
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this client offers nothing to servers"}
		}
	})
	return client
}

// joined is the life of a link with the values of a caller.
type joined struct {
	context.Context
	values context.Context
}

func (j joined) Value(key any) any {
	if v := j.Context.Value(key); v != nil {
		return v
	}
	return j.values.Value(key)
}

// do runs ask until it answers, ctx ends or the link does. It does not wait for an ask that is stuck in a write, which
// no context ends: that one ends with the link.
func do[T any](ctx context.Context, l *link, ask func(context.Context) (T, error)) (answer T, err error) {
	inner, cancel := context.WithCancel(joined{l.life, ctx})
	type outcome struct {
		answer T
		err    error
	}
	done := make(chan outcome, 1)
	if !l.begin(func() {
		answer, err := ask(inner)
		done <- outcome{answer, err}
	}) {
		cancel()
		return answer, fmt.Errorf("%w: %w", sdk.ErrConnectionClosed, context.Cause(l.life))
	}
	select {
	case o := <-done:
		time.AfterFunc(drain, cancel)
		return o.answer, o.err
	case <-ctx.Done():
		cancel()
		return answer, context.Cause(ctx)
	case <-l.life.Done():
		cancel()
	}
	select { // what it was stuck in ends with the link; it knows better whether anything was sent
	case o := <-done:
		if o.err == nil || unsent(o.err) {
			return o.answer, o.err
		}
		return answer, context.Cause(l.life)
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
}
