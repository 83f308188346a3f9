package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
)

// Limits of the memory of requests in progress, in bytes: of bodies while they are decoded, and of
// responses until their clients have read them, which may be slow.
const (
	largeBytes  = 4 << 20              // of a large response: the size of a page
	userBytes   = 8*largeBytes + 2<<20 // of a user, or of an address without a user: eight large responses and small bodies
	tenantBytes = 32 * largeBytes      // of a tenant
	totalBytes  = 128 * largeBytes     // of all requests
	valueBytes  = 64                   // of a value of a decoded body

	maxWaiting = 64              // requests of a user that wait for the end of others
	memoryWait = 2 * time.Second // the time for which a request waits
)

var (
	errLarge = &Refusal{Limit: LimitLarge, Err: &wire.Error{
		Code: wire.RateLimited, RetryAfter: memoryWait,
		Message: "The requests of this user or organization in progress need too much memory: read their responses first, or send fewer at once.",
	}}
	errFull = &wire.Error{Code: wire.Unavailable, RetryAfter: memoryWait, Message: "The requests in progress need too much memory: try again."}
)

// budget is the memory of requests in progress by owner. A request takes bytes before it uses them,
// and returns all of them at its end.
type budget struct {
	mu      sync.Mutex       // guards the fields below
	used    map[string]int64 // bytes
	waiting map[string]int   // requests, by the first of their owners
	freed   chan struct{}    // is closed when bytes are returned; nil while no request waits
}

// allowance is what an owner may use. The owner of the total is "".
type allowance struct {
	owner string
	bytes int64
}

// allowances returns those of a caller: as a user or an address, and as one of a tenant.
func allowances(caller Caller) []allowance {
	if caller.UserID == "" {
		return []allowance{{"address " + AddressOf(caller.RemoteIP), userBytes}, {"", totalBytes}}
	}

	return []allowance{{"user " + caller.TenantID + "/" + caller.UserID, userBytes}, {"tenant " + caller.TenantID, tenantBytes}, {"", totalBytes}}
}

// take takes bytes from all allowances, of which the first one is that of the user. If they are
// used up, it waits for the end of other requests. It fails with RateLimited, or with Unavailable
// if the total is used up.
func (b *budget) take(ctx context.Context, from []allowance, bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.exceeded(from, bytes)
	if err != nil && b.waiting[from[0].owner] < maxWaiting {
		err = b.wait(ctx, from, bytes)
	}

	if err != nil {
		return err
	}

	for _, a := range from {
		b.used[a.owner] += bytes
	}

	return nil
}

// exceeded returns the error if the bytes are more than what is left.
func (b *budget) exceeded(from []allowance, bytes int64) error {
	for _, a := range from {
		switch {
		case b.used[a.owner]+bytes <= a.bytes:
		case a.owner == "":
			return errFull
		default:
			return errLarge
		}
	}

	return nil
}

// wait waits until the bytes are left. It releases the lock in the meantime.
func (b *budget) wait(ctx context.Context, from []allowance, bytes int64) error {
	user := from[0].owner
	b.waiting[user]++
	defer func() {
		if b.waiting[user]--; b.waiting[user] == 0 {
			delete(b.waiting, user)
		}
	}()
	late := time.NewTimer(memoryWait)
	defer late.Stop()
	for {
		err := b.exceeded(from, bytes)
		if err == nil {
			return nil
		}

		if b.freed == nil {
			b.freed = make(chan struct{})
		}

		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
			err = nil
		case <-late.C:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}

		b.mu.Lock()
		if err != nil {
			return err
		}
	}
}

// give returns bytes.
func (b *budget) give(to []allowance, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range to {
		if b.used[a.owner] -= bytes; b.used[a.owner] == 0 {
			delete(b.used, a.owner)
		}
	}

	if b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
}

// memory is what a request has taken of the budget.
type memory struct {
	from  []allowance
	bytes int64
	used  int64 // at most bytes
}

// takeMemory takes bytes until the end of the request.
func (c *call) takeMemory(r *http.Request, bytes int64) error {
	if err := c.reserveMemory(r, c.memory.used+bytes); err != nil {
		return err
	}

	c.memory.used += bytes
	return nil
}

// reserveMemory takes what the request needs to have that many bytes.
func (c *call) reserveMemory(r *http.Request, bytes int64) error {
	m := &c.memory
	if bytes <= m.bytes {
		return nil
	}

	if m.from == nil {
		m.from = allowances(CallerOf(r))
	}

	if err := c.server.budget.take(r.Context(), m.from, bytes-m.bytes); err != nil {
		return err
	}

	m.bytes = bytes
	return nil
}

// releaseMemory returns what the request has taken.
func (c *call) releaseMemory() {
	if c.memory.bytes > 0 {
		c.server.budget.give(c.memory.from, c.memory.bytes)
	}
}

// TakeMemory takes bytes for the body of a request until its end, in addition to what it has taken.
func TakeMemory(r *http.Request, bytes int64) error {
	if c := callOf(r); c != nil {
		return c.takeMemory(r, bytes)
	}

	return nil
}

// ReleaseMemory returns what a request has taken, when it no longer has its body and does not end
// soon.
func ReleaseMemory(r *http.Request) {
	if c := callOf(r); c != nil {
		c.releaseMemory()
		c.memory = memory{}
	}
}

// TakeLarge takes the memory of a large response until the end of the request, which includes that
// of a body. It fails with RateLimited if the caller has eight of them. It is for handlers whose
// response is large only sometimes; other routes are Large.
func TakeLarge(r *http.Request) error {
	if c := callOf(r); c != nil {
		return c.reserveMemory(r, largeBytes)
	}

	return nil
}

// ErrAccessEnded is wrapped by the cause of a request's context after its caller was disabled,
// deleted or signed out, or lost the role. The cause also wraps the [Code] of the response. Like
// the context of a client that disconnected, it is a [context.Canceled].
var ErrAccessEnded = fmt.Errorf("the access of the caller has ended: %w", context.Canceled)

// lastWrites is the time in which a response may be completed after the access has ended, such as
// a stream with its last event.
const lastWrites = time.Second

// admit begins a request that may call its route, and returns what its handler gets.
func (s *server) admit(w http.ResponseWriter, r *http.Request, route *Route) (http.ResponseWriter, *http.Request, func()) {
	ctx, done := s.cfg.Admit(r.Context(), CallerOf(r), route.Group)
	r = r.WithContext(ctx)
	body := &guardedBody{ReadCloser: r.Body, ctx: ctx}
	r.Body = body
	guarded := &guardedWriter{ResponseWriter: w}
	stop := context.AfterFunc(ctx, func() {
		if ended(ctx) != nil {
			guarded.limit(&body.reading)
		}
	})
	return guarded, r, func() {
		stop()
		guarded.close()
		done()
	}
}

// ended returns the cause of ctx if the access of its caller has ended.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrAccessEnded) {
		return cause
	}

	return nil
}

// guardedBody is the body of a request, whose reads fail after the access has ended.
type guardedBody struct {
	io.ReadCloser

	ctx     context.Context // that of the request, which has the body
	reading atomic.Bool     // set before ctx is checked
}

func (b *guardedBody) Read(p []byte) (int, error) {
	b.reading.Store(true)
	defer b.reading.Store(false)
	if err := ended(b.ctx); err != nil {
		return 0, err
	}

	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && ended(b.ctx) != nil { //nolint:errorlint // io.Reader returns it unwrapped
		err = ended(b.ctx)
	}

	return n, err
}

// guardedWriter bounds the writes after the access has ended, of which some set their own
// deadlines and some none.
type guardedWriter struct {
	http.ResponseWriter

	mu     sync.Mutex // guards the fields below
	last   time.Time  // the deadline of all writes, or the zero time
	closed bool
}

// Unwrap makes the methods of the wrapped writer available to http.ResponseController.
func (g *guardedWriter) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// ReadFrom keeps sendfile.
func (g *guardedWriter) ReadFrom(src io.Reader) (int64, error) { return io.Copy(g.ResponseWriter, src) }

// SetWriteDeadline sets a deadline, which is not after the last one.
func (g *guardedWriter) SetWriteDeadline(at time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.last.IsZero() && (at.IsZero() || at.After(g.last)) {
		at = g.last
	}

	return http.NewResponseController(g.ResponseWriter).SetWriteDeadline(at)
}

// limit ends the read of the body in progress, and gives the response its last deadline.
func (g *guardedWriter) limit(reading *atomic.Bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}

	g.last = time.Now().Add(lastWrites)
	control := http.NewResponseController(g.ResponseWriter)
	_ = control.SetWriteDeadline(g.last) // a writer without deadlines is not a connection
	if reading.Load() {
		_ = control.SetReadDeadline(time.Now())
	}
}

// close removes the deadline, which would apply to the next response of the connection.
func (g *guardedWriter) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if !g.last.IsZero() {
		_ = http.NewResponseController(g.ResponseWriter).SetWriteDeadline(time.Time{})
	}
}
