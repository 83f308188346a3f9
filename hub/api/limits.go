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
)

// Limits of the large responses of one caller: their memory is occupied until the client has read
// them, which may be slow.
const (
	maxLarge        = 8               // responses at once
	maxLargeWaiting = 64              // requests that wait for the end of one of them
	largeWait       = 2 * time.Second // the time for which a request waits
)

var errLarge = &Error{
	Code: RateLimited, RetryAfter: largeWait, Limit: LimitLarge,
	Message: "Eight large responses to this user are in progress: read them first, or send fewer requests at once.",
}

// shares counts the large responses in progress by their caller.
type shares struct {
	mu       sync.Mutex // guards byCaller and the users of its shares
	byCaller map[string]*share
}

// share is that of one caller.
type share struct {
	places chan struct{} // has an element for each response
	users  int           // responses and requests that wait
}

// take takes a place of a caller. It fails with RateLimited if none becomes free in time.
func (s *shares) take(ctx context.Context, caller string) (release func(), err error) {
	s.mu.Lock()
	own := s.byCaller[caller]
	if own == nil {
		own = &share{places: make(chan struct{}, maxLarge)}
		s.byCaller[caller] = own
	}
	own.users++
	crowded := own.users > maxLarge+maxLargeWaiting
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(s.byCaller, caller)
		}
	}
	release = func() {
		<-own.places
		leave()
	}
	select {
	case own.places <- struct{}{}:
		return release, nil
	default:
	}
	if crowded {
		leave()
		return nil, errLarge
	}
	late := time.NewTimer(largeWait)
	defer late.Stop()
	select {
	case own.places <- struct{}{}:
		return release, nil
	case <-late.C:
		err = errLarge
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	leave()
	return nil, err
}

// TakeShare counts a request as one with a large body or a large response of that owner until its
// handler returns. It fails with RateLimited if the owner has eight of them. It is for handlers
// that authenticate their callers; other routes are Large.
func TakeShare(r *http.Request, owner string) error {
	c := callOf(r)
	if c == nil || c.release != nil {
		return nil
	}
	release, err := c.server.shares.take(r.Context(), owner)
	c.release = release
	return err
}

// takeShare takes the share of the caller, which is an address on routes that are Open.
func takeShare(r *http.Request) error {
	caller := CallerOf(r)
	if caller.UserID == "" {
		return TakeShare(r, "address "+caller.RemoteIP)
	}
	return TakeShare(r, ShareOwner(caller))
}

// ShareOwner returns the owner of the large responses to a user.
func ShareOwner(caller Caller) string { return "user " + caller.TenantID + "/" + caller.UserID }

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
