package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime"
	"net/http"
	"strings"
	"time"
)

const (
	firstRetry = 3 * time.Second // until the stream sets another
	idLimit    = 4 << 10         // bytes; a server accepts a header of this size
)

// Source reads an event stream over HTTP, and connects again when the connection ends, as the
// EventSource of browsers does.
type Source struct {
	// Request is sent for each connection, with Last-Event-ID once an event had an id. It has no
	// body. Required.
	Request *http.Request

	// Client sends the requests. Its Timeout must be zero, because it bounds a whole stream.
	// Required.
	Client *http.Client

	// Attempts is the number of connections without an event after which Events fails. Defaults to
	// 10.
	Attempts int

	// MaxWait bounds the time between two connections, whatever the stream demands. The time is that
	// of the retry field, or 3 s, and doubles with each connection without an event. Defaults to 1
	// minute.
	MaxWait time.Duration
}

// Events returns the events of all connections. Each event's Data is valid until the next
// iteration. The iteration ends if the server responds with 204, which means that there are no
// further events. It ends with an error if ctx ends, after too many connections without an event, if
// an event is too large, or if a response is no event stream. Responses with 429 and from 500 on
// are repeated.
func (s Source) Events(ctx context.Context) iter.Seq2[Event, error] {
	if s.Attempts <= 0 {
		s.Attempts = 10
	}
	if s.MaxWait <= 0 {
		s.MaxWait = time.Minute
	}
	return func(yield func(Event, error) bool) {
		c := connection{source: s, retry: firstRetry}
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
	id       string // of the last event
	retry    time.Duration
	failures int  // connections without an event, one after another
	final    bool // another connection is useless
	stopped  bool // the caller wants no further event
}

// read opens a connection and yields its events. At the end of a stream the error describes it.
func (c *connection) read(ctx context.Context, yield func(Event, error) bool) error {
	c.failures++
	req := c.source.Request.Clone(ctx)
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	req.Header.Set("Accept", "text/event-stream")
	if c.id != "" {
		req.Header.Set("Last-Event-ID", c.id)
	}
	res, err := c.source.Client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
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
	return c.events(NewDecoder(res.Body), yield)
}

func (c *connection) events(d *Decoder, yield func(Event, error) bool) error {
	d.SetNameLimit(idLimit)
	for {
		event, err := d.Next()
		if retry, ok := d.Retry(); ok {
			c.retry = retry
		}
		if id := d.LastEventID(); id != "" && !strings.ContainsFunc(id, control) {
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

// control reports whether a header must not contain r.
func control(r rune) bool { return r < ' ' || r == 0x7f }

// wait waits until the next connection is due, and reports whether ctx is still valid. Clients of a
// server that restarts wait for different times.
func (c *connection) wait(ctx context.Context) bool {
	wait := min(max(c.retry, time.Millisecond), c.source.MaxWait)
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
