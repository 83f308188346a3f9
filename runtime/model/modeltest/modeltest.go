// Package modeltest is an upstream for tests: an HTTP server in the wire format of a model vendor,
// with one scripted response for each request.
//
//	up := modeltest.Start(t, modeltest.Anthropic,
//		modeltest.Stream(modeltest.ToolCall("toolu_1", "Read", `{"file_path":`, `"a.txt"}`)),
//		modeltest.Stream(modeltest.Text("It ", "says hello.")),
//	)
//	// configure up.URL as the base URL, run what is to be tested, then look at up.Requests()
//
// It rejects requests that the vendor would reject (a tool call without its result, an empty text
// block, roles out of order), so that a test cannot pass with requests that fail in production. A
// response consists of [Step] values, which include the failures of an upstream: silence, a dropped
// connection, an error in the stream, invalid data.
package modeltest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Protocol is a wire format.
type Protocol string

const (
	Anthropic Protocol = "anthropic" // Messages: POST {base}/v1/messages
	OpenAI    Protocol = "openai"    // Chat Completions: POST {base}/chat/completions, base ends in /v1
)

const (
	maxBody = 64 << 20
	// maxRequests bounds the requests that are stored for inspection: a benchmark makes millions.
	maxRequests = 1000
	// awaitLimit is long enough for a loaded machine and shorter than the timeout of a test.
	awaitLimit = 2 * time.Minute
)

// Upstream is the scripted server. It is an [http.Handler]; [Start] returns one that listens.
type Upstream struct {
	// URL is the base URL to configure for the protocol, set by [Start].
	URL string

	wire   format
	closed chan struct{}                 // ends every reply that waits
	report func(format string, a ...any) // fails the test, if there is one

	mu       sync.Mutex // guards the fields below
	replies  []Reply    // of the next requests
	requests []*Request // the latest requests, at most maxRequests
	count    int        // of all requests
	came     chan struct{}
}

// New returns an upstream that responds to its nth valid request with the nth reply, and to any
// request after the last one with status 500. It panics for an unknown protocol.
func New(p Protocol, replies ...Reply) *Upstream {
	u := &Upstream{
		wire:   formatOf(p),
		closed: make(chan struct{}),
		report: func(string, ...any) {},
		came:   make(chan struct{}),
	}
	for _, r := range replies {
		u.replies = append(u.replies, r.compiled(u.wire))
	}

	return u
}

// Start serves an upstream on loopback until the test ends. A request that has no reply left
// and a request that is not valid fail the test.
func Start(tb testing.TB, p Protocol, replies ...Reply) *Upstream {
	tb.Helper()
	u := New(p, replies...)
	u.report = tb.Errorf
	srv := httptest.NewServer(u)
	u.URL = srv.URL + u.wire.base()
	tb.Cleanup(func() {
		close(u.closed)
		srv.CloseClientConnections() // a client that has stopped reading would block Close
		srv.Close()
	})
	return u
}

// Requests returns the requests so far, oldest first, at most the latest 1000.
func (u *Upstream) Requests() []*Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]*Request(nil), u.requests...)
}

// Await waits until n requests have arrived and returns the nth, counted from 1. It fails the test
// after 30 seconds.
func (u *Upstream) Await(tb testing.TB, n int) *Request {
	tb.Helper()
	limit := time.NewTimer(awaitLimit)
	defer limit.Stop()
	for {
		u.mu.Lock()
		count, came := u.count, u.came
		first := count - len(u.requests) // how many are no longer stored
		if n <= count && n > first {
			r := u.requests[n-1-first]
			u.mu.Unlock()
			return r
		}

		u.mu.Unlock()
		if n <= first {
			tb.Fatalf("modeltest: request %d is no longer stored, the first stored one is %d", n, first+1)
		}

		select {
		case <-came:
		case <-limit.C:
			tb.Fatalf("modeltest: %d requests arrived in %v, want %d", count, awaitLimit, n)
		}
	}
}

// ServeHTTP responds to one request.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	req := &Request{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Body: body, Time: time.Now(),
		closed: make(chan struct{}),
	}
	defer req.finish()
	var usage bool
	var refused *refusal
	switch _, tooLarge := errors.AsType[*http.MaxBytesError](err); {
	case tooLarge:
		refused = &refusal{http.StatusRequestEntityTooLarge, "Request exceeds the maximum size"}
	case err == nil:
		usage, refused = u.wire.check(req)
	}

	n, reply, ok := u.record(req, err == nil && refused == nil)
	switch {
	case refused != nil:
		u.refuse(w, n, refused)
	case err != nil:
		req.gone = true
	case !ok:
		u.report("modeltest: request %d has no reply left", n)
		writeError(w, u.wire, http.StatusInternalServerError, fmt.Sprintf("modeltest: request %d has no reply left", n))
	default:
		for reply.choose != nil { // which may block
			reply = reply.choose(req).compiled(u.wire)
		}

		reply.serve(w, r, u, req, usage)
	}
}

// record stores a request and takes the reply of a valid one, so that a request that
// [Upstream.Await] returns has its reply.
func (u *Upstream) record(r *Request, valid bool) (n int, reply Reply, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.count++
	u.requests = append(u.requests, r)
	if len(u.requests) > maxRequests {
		u.requests[0] = nil
		u.requests = u.requests[1:]
	}

	close(u.came)
	u.came = make(chan struct{})
	if ok = valid && len(u.replies) > 0; ok {
		if reply = u.replies[0]; !reply.repeat {
			u.replies = u.replies[1:]
		}
	}

	return u.count, reply, ok
}

func (u *Upstream) refuse(w http.ResponseWriter, n int, r *refusal) {
	u.report("modeltest: request %d is not valid: %s", n, r.message)
	writeError(w, u.wire, r.status, r.message)
}

// Request is a request that an [Upstream] received.
type Request struct {
	Method string
	Path   string
	Query  string
	Header http.Header
	Body   []byte
	Time   time.Time // when the request was read

	closed chan struct{}
	end    time.Time // this and the next are written before closed is closed
	gone   bool
}

// Closed is closed when the upstream is done with the request: the complete reply was written, or
// the client has disconnected.
func (r *Request) Closed() <-chan struct{} { return r.closed }

// End waits until the request is closed. It returns the time, and reports whether the client
// disconnected before the complete reply was written.
func (r *Request) End() (at time.Time, early bool) {
	<-r.closed
	return r.end, r.gone
}

func (r *Request) finish() {
	r.end = time.Now()
	close(r.closed)
}
