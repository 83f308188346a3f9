package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/internal/runvalue"
)

const (
	knownWithin = time.Second     // until the runtime has accepted a run that is cancelled
	endWithin   = 5 * time.Second // until the response of a run that is cancelled or has ended ends, with the tokens
)

// errOpen is the cause of a response that did not end in time.
var errOpen = errors.New("the runtime did not end the response after its last event")

// directRun is a run at /runtime.
type directRun struct {
	service *Service
	target  Target
	hangUp  context.CancelCauseFunc // closes the connection to the runtime
	known   chan struct{}           // closed when the runtime has accepted the run
	ended   chan struct{}           // closed when the response has ended
	counted chan struct{}           // closed when the run is counted
	count   func()                  // counts the run, once

	begin    func() error // begins the run, before the runtime has the whole request
	received func()       // releases the place of a request that is not complete

	begins sync.Mutex // guards the fields below
	direct *usage.Direct
	over   bool // the run is counted

	mu       sync.Mutex     // guards the fields below
	sent     bool           // the runtime has perhaps the whole request
	id       string         // "" until the runtime has accepted the run
	response *http.Response // nil until the response begins, with JSON at the end of the run
	report   string         // of a JSON response
}

// forwardRun forwards a request that may begin a run, and counts the tokens that the runtime
// reports in a header or a trailer, before the client has the complete response. It reads no event.
// When the client disconnects, the run is cancelled, and its end is awaited, which has the tokens.
func (s *Service) forwardRun(w http.ResponseWriter, r *http.Request, x exchange, tenant, agent string) error {
	client := r.Context()
	line, hangUp := context.WithCancelCause(context.WithoutCancel(client))
	run := &directRun{
		service: s, target: x.target, hangUp: hangUp,
		known: make(chan struct{}), ended: make(chan struct{}), counted: make(chan struct{}),
	}
	if err := s.runs.enter(run); err != nil {
		return err
	}

	defer s.runs.leave(run)
	run.direct = s.cfg.Usage.NewDirect(tenant, agent)
	run.count = sync.OnceFunc(func() {
		close(run.ended)
		started, report := run.result()
		run.end(context.WithoutCancel(client), started, report)
	})
	defer func() { // also after the panic with which a proxy closes the connection to the client
		hangUp(nil)
		run.count()
	}()
	defer context.AfterFunc(client, func() { run.cancel(context.Cause(client)) })()
	if err := run.awaitBody(r, caller{tenant, x.target.Key}); err != nil {
		return err
	}

	defer run.received()
	x.run = run
	x.request = func(h http.Header) { h["Te"] = []string{"trailers"} }
	accepted := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		run.accepted(h.Get("X-Run-Id"))
		return nil
	}}
	return s.forward(w, r.WithContext(httptrace.WithClientTrace(line, accepted)), x)
}

// accepted notes the id of the run, unless it is "".
func (run *directRun) accepted(id string) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.id == "" && id != "" {
		run.id = id
		close(run.known)
	}
}

// accept notes the response of the runtime.
func (run *directRun) accept(res *http.Response) {
	run.accepted(res.Header.Get("X-Run-Id"))
	run.mu.Lock()
	defer run.mu.Unlock()
	run.response, run.report = res, res.Header.Get(runvalue.UsageHeader)
	res.Body = &runBody{ReadCloser: res.Body, run: run, started: run.id != ""}
}

// cancel cancels the run, because its client is gone or the hub ends. The connection to the runtime
// is closed with the cause if that fails, or if the end of the run takes too long.
func (run *directRun) cancel(cause error) {
	defer run.hangUp(cause)
	select {
	case <-run.known:
	case <-run.ended:
	case <-time.After(knownWithin):
	}

	run.mu.Lock()
	id := run.id
	run.mu.Unlock()
	if id == "" {
		return
	}

	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	if run.service.cancelRun(ctx, run.target, id) {
		select { // the rest of the response may be in transit
		case <-run.ended:
		case <-ctx.Done():
		}
	}
}

// result returns what was learned of a run whose response has ended: whether the runtime has
// perhaps accepted the run, and its report, or "". There is none if the runtime has ended before
// the run.
func (run *directRun) result() (bool, string) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if run.report == "" && run.response != nil {
		run.report = run.response.Trailer.Get(runvalue.UsageHeader)
	}

	return run.id != "" || run.sent && run.response == nil, run.report
}

// lastEvent is the end of each stream of the runtime API, and lastData that of the protocol of
// OpenAI.
const (
	lastEvent = "event: done\ndata: {}\n\n"
	lastData  = "data: [DONE]\n\n"
)

// runBody is the body of the response of a run. It counts the run before the client receives the
// last bytes: a body with a length returns them together with io.EOF, and those of a stream wait
// for it, for endWithin at most.
type runBody struct {
	io.ReadCloser
	run     *directRun
	started bool                 // the runtime has accepted the run
	tail    [len(lastEvent)]byte // the last bytes that were read
	kept    string               // the end of lastEvent, which was read and not returned, or ""
	end     bool
}

// Read implements io.Reader.
func (b *runBody) Read(p []byte) (int, error) {
	kept := copy(p, b.kept)
	if kept > 0 {
		defer time.AfterFunc(endWithin, func() { b.run.hangUp(errOpen) }).Stop()
	}

	n, err := b.ReadCloser.Read(p[kept:])
	b.note(p[kept : kept+n])
	n, b.kept = n+kept, ""
	if err != nil && b.complete() {
		err = io.EOF // the stream is complete: what failed is its trailer
	}

	switch {
	case err != nil:
		b.end = true
		b.run.count()
	case b.complete(): // the end of the response follows, with the tokens
		b.kept = lastEvent[len(lastEvent)-1:]
		n--
	}

	return n, err
}

// complete reports whether the last event was read.
func (b *runBody) complete() bool {
	tail := string(b.tail[:])
	return tail == lastEvent || strings.HasSuffix(tail, lastData)
}

// note notes bytes that were read.
func (b *runBody) note(p []byte) {
	p = p[max(0, len(p)-len(b.tail)):]
	copy(b.tail[:], b.tail[len(p):])
	copy(b.tail[len(b.tail)-len(p):], p)
}

// Close cancels a run that has not ended, because the client does not read its events, and reads
// the rest of them.
func (b *runBody) Close() error {
	if !b.end && b.started {
		go b.run.cancel(context.Canceled) // ends with the response
		_, _ = io.Copy(io.Discard, b.ReadCloser)
	}

	return b.ReadCloser.Close()
}

// cancelRun cancels a run in its runtime, and reports whether the run ends or has ended.
func (s *Service) cancelRun(ctx context.Context, target Target, id string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.URL+"/v1/runs/"+url.PathEscape(id)+"/cancel", http.NoBody)
	if err != nil {
		return false
	}

	req.Header.Set("X-Api-Key", target.APIKey)
	req.Header["Idempotency-Key"] = nil // not sent: the request is sent again if an unused connection was closed
	res, err := s.cfg.Transport.RoundTrip(req)
	if err != nil {
		return false
	}

	_ = res.Body.Close() // it is not needed
	return res.StatusCode == http.StatusAccepted || res.StatusCode == http.StatusConflict
}
