package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

const (
	firstRetry = 3 * time.Second        // until the stream sets another
	leastWait  = 500 * time.Millisecond // a server may set 0, and browsers wait as long
	idLimit    = 4 << 10                // bytes; a server accepts a header of this size
)

// Source reads an event stream over HTTP, and connects again when the connection ends, as the
// EventSource of browsers does.
type Source struct {
	// Request is sent for each connection, with Last-Event-ID once the stream had an id. Its own
	// Last-Event-ID is that of the first connection. It has no body. Required.
	Request *http.Request

	// Client sends the requests. Its Timeout must be zero, because it bounds a whole stream.
	// Required.
	Client *http.Client

	// Attempts is the number of connections without an event after which Events fails. Defaults to
	// 10.
	Attempts int

	// MinWait and MaxWait bound the time between two connections, whatever the stream demands. The
	// time is that of the retry field, or 3 s, and doubles with each connection without an event.
	// They default to 500 ms and 1 minute. MaxWait takes precedence.
	MinWait, MaxWait time.Duration

	// MaxEvent is the largest number of bytes of the data of an event. A stream with a larger one ends
	// the iteration with a [*LimitError], as does an id or an event name of more than 4 KiB. Defaults
	// to 4 MiB.
	MaxEvent int

	// IdleTimeout bounds the time without a byte, of a response or of its stream. The connection is
	// then closed as if the server had ended it. It must exceed the interval of the server's
	// heartbeat, such as [Stream] sends. Defaults to no limit.
	IdleTimeout time.Duration
}

// Events returns the events of all connections. Each event's Data is valid until the next
// iteration. The iteration ends if the server responds with 204, which means that there are no
// further events. It ends with an error if ctx ends, after too many connections without an event,
// if an event is too large, or if a response is not an event stream. Responses with 429 and from
// 500 on are repeated.
func (s Source) Events(ctx context.Context) iter.Seq2[Event, error] {
	if s.Attempts <= 0 {
		s.Attempts = 10
	}

	if s.MinWait <= 0 {
		s.MinWait = leastWait
	}

	if s.MaxWait <= 0 {
		s.MaxWait = time.Minute
	}

	return func(yield func(Event, error) bool) {
		c := connection{source: s, id: s.Request.Header.Get("Last-Event-ID"), retry: firstRetry}
		for !c.stopped {
			err := c.read(ctx, yield)
			if c.stopped {
				return
			}

			if ctx.Err() != nil {
				err = context.Cause(ctx)
			} else if !c.final && c.failures < s.Attempts {
				if c.wait(ctx) {
					continue
				}

				err = context.Cause(ctx)
			}

			c.stopped = true
			if err != nil {
				yield(Event{}, fmt.Errorf("read event stream: %w", err))
			}
		}
	}
}

// connection is the state of one iteration. Its fields outlive the connections.
type connection struct {
	source   Source
	id       string // the last event ID
	retry    time.Duration
	failures int  // connections without an event, one after another
	final    bool // another connection is useless
	stopped  bool // the caller wants no further event
}

var errIdle = errors.New("the server sent nothing for the idle timeout")

// read opens a connection and yields its events. At the end of a stream the error describes it.
func (c *connection) read(ctx context.Context, yield func(Event, error) bool) error {
	c.failures++
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var idle *time.Timer
	if c.source.IdleTimeout > 0 {
		idle = time.AfterFunc(c.source.IdleTimeout, func() { cancel(errIdle) })
		defer idle.Stop()
	}

	err := c.connect(ctx, idle, yield)
	if err != nil && context.Cause(ctx) == errIdle { //nolint:errorlint // the error of this function
		return errIdle
	}

	return err
}

// body is the body of a response, without the time between two calls of Read.
type body struct {
	io.Reader
	idle  *time.Timer
	limit time.Duration
}

func (b body) Read(p []byte) (int, error) {
	b.idle.Reset(b.limit)
	defer b.idle.Stop()
	return b.Reader.Read(p)
}

func (c *connection) connect(ctx context.Context, idle *time.Timer, yield func(Event, error) bool) error {
	req := c.source.Request.Clone(ctx)
	if req.Header == nil {
		req.Header = make(http.Header)
	}

	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Cache-Control", "no-cache") // as EventSource does
	req.Header.Del("Last-Event-ID")
	if c.id != "" {
		req.Header.Set("Last-Event-ID", c.id)
	}

	res, err := c.source.Client.Do(req)
	if err != nil {
		return err
	}

	defer func() { _ = res.Body.Close() }()
	// Parameters do not count, whatever they are (WHATWG HTML, section 9.2.2).
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	switch {
	case res.StatusCode == http.StatusNoContent:
		c.final = true
		return nil
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("the server responded with %s", res.Status)
	case res.StatusCode != http.StatusOK || kind != "text/event-stream":
		c.final = true
		return fmt.Errorf("the server responded with %s of type %q", res.Status, kind)
	}

	var stream io.Reader = res.Body
	if idle != nil {
		stream = body{Reader: res.Body, idle: idle, limit: c.source.IdleTimeout}
	}

	return c.events(NewDecoder(stream), yield)
}

func (c *connection) events(d *Decoder, yield func(Event, error) bool) error {
	if most := c.source.MaxEvent; most > 0 {
		d.SetLimits(max(most, idLimit)+len("event: "), most)
	}

	d.SetNameLimit(idLimit)
	d.id, d.blockID = c.id, c.id // the id of the former connection, until the stream has another
	for {
		event, err := d.Next()
		if retry, ok := d.Retry(); ok {
			c.retry = retry
		}

		if id := d.LastEventID(); !strings.ContainsFunc(id, control) {
			c.id = id
		}

		if _, tooLarge := errors.AsType[*LimitError](err); tooLarge {
			c.final = true
		}

		if err == io.EOF {
			return errors.New("the server ends every connection without an event")
		}

		if err != nil {
			return err
		}

		c.failures = 0
		if !yield(event, nil) {
			c.stopped = true
			return nil
		}
	}
}

// control reports whether a header must not contain r. It may contain a tab.
func control(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// wait waits until the next connection is due, and reports whether ctx is still valid. Clients of a
// server that restarts wait for different times.
func (c *connection) wait(ctx context.Context) bool {
	wait := min(max(c.retry, c.source.MinWait), c.source.MaxWait)
	for range c.failures - 1 {
		wait = min(2*wait, c.source.MaxWait)
	}

	timer := time.NewTimer(min(wait+rand.N(wait/4+1), c.source.MaxWait))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
