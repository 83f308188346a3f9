package openai

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/sse"
)

const (
	// keepEvents is the time after its end in which the events of a background response can be read.
	keepEvents = 5 * time.Minute
	// maxEvents bounds their bytes.
	maxEvents = 16 << 20
	// memoryStep is the number of bytes for which memory is reserved.
	memoryStep = 16 << 10
)

// background is a response whose run does not end with its request. It is the sink of its events.
type background struct {
	*responseRun

	first *resource     // when the run began
	begun chan struct{} // closed then
	ended chan struct{} // closed when the run and err are complete
	err   error         // of the run

	mu     sync.Mutex    // guards the fields below
	events []byte        // encoded
	ends   []int         // of each event in events
	full   bool          // later events are not in events
	more   chan struct{} // closed when there are more
	kept   int           // bytes of events for which no memory is reserved yet

	expiry *time.Timer // after the end
}

// detached is the writer of a run whose request has ended: only its header is used.
type detached struct{ header http.Header }

// Header implements http.ResponseWriter.
func (w *detached) Header() http.Header { return w.header }

// Write implements http.ResponseWriter.
func (w *detached) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements http.ResponseWriter.
func (w *detached) WriteHeader(int) {}

// runInBackground starts the run of a response, and responds when it has begun. The response owns
// the memory of the request.
func (s *server) runInBackground(a *responseRun, r *http.Request) error {
	b := &background{responseRun: a, begun: make(chan struct{}), ended: make(chan struct{}), more: make(chan struct{})}
	if err := s.admit(b); err != nil {
		a.memory.Release()
		return err
	}

	w := a.w
	a.w = &detached{w.Header().Clone()}
	a.open = b.open
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	stop := context.AfterFunc(s.life, cancel)
	go func() {
		defer s.running.Done()
		defer s.retire(b)
		defer cancel()
		defer stop()
		b.err = b.executeAll(ctx)
	}()

	select {
	case <-b.begun:
	case <-b.ended:
	case <-r.Context().Done():
		return r.Context().Err()
	}

	select {
	case <-b.begun:
	default:
		return b.err
	}

	w.Header().Set("X-Run-Id", b.runID)
	if a.stream {
		return s.follow(w, r, b, 0)
	}

	return httpapi.WriteJSON(w, http.StatusOK, b.first)
}

// admit counts a response that is about to begin.
func (s *server) admit(b *background) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case b.report:
		return unsupported("background", "a server in front of this one counts the tokens of a response when its request ends")
	case s.life.Err() != nil:
		return &failure{status: http.StatusServiceUnavailable, message: "the server is stopping"}
	case s.active >= s.cfg.MaxBackground:
		return &failure{
			status: http.StatusTooManyRequests, message: fmt.Sprintf("there are %d background responses in progress", s.active), code: codeRate,
			retryAfter: 5 * time.Second,
		}
	}

	s.active++
	s.running.Add(1)
	return nil
}

// executeAll executes the run, and adds the event of its end.
func (b *background) executeAll(ctx context.Context) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v\n%s", value, debug.Stack())
		}
	}()
	err = b.execute(ctx)
	if b.first == nil {
		return err
	}

	b.end(err)
	return nil
}

// open is called when the run begins.
func (b *background) open() (sink, error) {
	b.first = b.resource(nil)
	if !b.stream {
		close(b.begun)
		return nil, nil
	}

	b.s.mu.Lock()
	b.s.background[b.runID] = b
	b.s.mu.Unlock()
	return b, nil
}

// Queue implements sink.
func (b *background) Queue(name string, data []byte) { b.QueueFrame(appendFrame(nil, name, data), 0) }

// QueueFrame implements sink.
func (b *background) QueueFrame(frame []byte, _ int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.events)
	if b.full = b.full || before+len(frame) > maxEvents; b.full {
		return
	}

	b.events = append(b.events, frame...)
	b.ends = append(b.ends, len(b.events))
	if b.kept += len(b.events) - before; b.kept < memoryStep {
		return
	}

	if err := b.memory.Add(2 * b.kept); err != nil { // the slice grows by doubling
		b.full = true
	}

	b.kept = 0
}

// Flush implements sink.
func (b *background) Flush() {
	b.mu.Lock()
	close(b.more)
	b.more = make(chan struct{})
	b.mu.Unlock()
	if b.output.sequence == 2 { // created and in_progress
		close(b.begun)
	}
}

// retire ends a response. Its events are kept for some time.
func (s *server) retire(b *background) {
	if b.err != nil && b.first != nil {
		s.cfg.Logger.Error("background response failed", "err", b.err, "run_id", b.runID)
	}

	close(b.ended)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	if s.background[b.runID] != b {
		b.memory.Release()
		return
	}

	b.expiry = time.AfterFunc(keepEvents, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forget(b)
	})
}

// forget releases the events of a response that has ended. The caller holds mu.
func (s *server) forget(b *background) {
	if s.background[b.runID] != b {
		return
	}

	delete(s.background, b.runID)
	b.expiry.Stop()
	b.memory.Release()
}

// replay handles GET /responses/:response with stream=true. It responds with the events after a
// sequence number, and those that follow.
func (s *server) replay(w http.ResponseWriter, r *http.Request, id responseID, after string) error {
	begin := 0
	if after != "" {
		n, err := strconv.ParseUint(after, 10, 31)
		if err != nil {
			return invalid("starting_after", "must be a sequence number")
		}

		begin = int(n) + 1
	}

	s.mu.Lock()
	b := s.background[id.run]
	s.mu.Unlock()
	if b == nil || b.session != id.session {
		return unsupported("stream", "this server has no events of the response: it did not start with background and stream, or ended some minutes ago")
	}

	return s.follow(w, r, b, begin)
}

// follow sends the events of a background response from the one with this sequence number.
func (s *server) follow(w http.ResponseWriter, r *http.Request, b *background, next int) error {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	x := &exchange{s: s, w: w}
	stream, err := x.openStream(cancel)
	if err != nil {
		return err
	}

	defer func() { _ = stream.Close() }() // OnError has handled the error
	for {
		events, more, done := b.after(&next)
		_ = stream.QueueEvents(events)
		_ = stream.Flush()
		if done {
			_ = stream.Queue(sse.Event{Data: []byte("[DONE]")})
			return nil
		}

		select {
		case <-more:
		case <-b.ended:
		case <-ctx.Done():
			return nil
		}
	}
}

// after returns the encoded events from number next, which it sets to the next one, a channel that
// is closed when there are more, and whether there will be none.
func (b *background) after(next *int) ([]byte, <-chan struct{}, bool) {
	done := false
	select {
	case <-b.ended:
		done = true
	default:
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	begin := 0
	if *next > 0 && len(b.ends) > 0 {
		begin = b.ends[min(*next, len(b.ends))-1]
	}

	*next = max(*next, len(b.ends))
	return b.events[begin:], b.more, done || b.full
}

// cancelResponse handles POST /responses/:response/cancel.
func (s *server) cancelResponse(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	id, ok := parseResponseID(ps.ByName("response"))
	if !ok {
		return errNoResponse
	}

	if !id.background {
		return &failure{status: http.StatusBadRequest, message: "only a response with background: true can be cancelled"}
	}

	memory := &httpapi.Memory{Reserve: s.cfg.Host.Reserve}
	defer memory.Release()
	found, err := s.load(r.Context(), id, memory)
	if err != nil || found.Status != inProgress {
		return respond(w, found, err)
	}

	if err := s.cfg.Host.Cancel(r.Context(), id.run); err != nil {
		return err
	}

	found, err = s.load(r.Context(), id, memory)
	if err == nil && found.Status == inProgress {
		found.Status = "cancelled" // it is about to end
	}

	return respond(w, found, err)
}

func respond(w http.ResponseWriter, r *resource, err error) error {
	if err != nil {
		return err
	}

	return httpapi.WriteJSON(w, http.StatusOK, r)
}
