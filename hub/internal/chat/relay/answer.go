package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/runtime/client"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

const (
	// maxReceived bounds the bytes that a runtime sends for one answer, comments included.
	maxReceived = 256 << 20
	// lastEvents is the time for which the end of a run is awaited whose client has lost its
	// access: it receives the last events for a second.
	lastEvents = 500 * time.Millisecond
	// storeLater is the time after which the end of an answer is stored whose client is gone. If
	// many clients disconnect at once, their runs are cancelled before.
	storeLater = 25 * time.Millisecond
)

// AnswerRun is the run of an answer, and the place of the answer in the database.
type AnswerRun struct {
	ID        string
	TenantID  string
	UserID    string
	UserName  string
	AgentName string

	SessionKey     string
	SessionID      string
	RuntimeSession string // the session of the runtime that was continued last, or ""
	Ephemeral      bool   // the session is deleted with the end of the answer, unless that waits

	Conversation Conversation // up to the message, if a client carries it

	UserMessageID string
	MessageID     string // of the answer
	Seq           int64  // of the answer

	Label    json.RawMessage // in the first and last event, or nil
	Hint     string          // the notice that is only in the first event, or ""
	Notice   string          // the notice that is a part of the answer, or ""
	NoticeAt aigc.Mode       // append or prepend
}

// noticeSoFar returns the notice that a part of the answer in progress has.
func (r AnswerRun) noticeSoFar() string {
	if r.NoticeAt != aigc.ModePrepend {
		return ""
	}

	return r.Notice
}

// usage returns the run for package usage, without its tokens.
func (r AnswerRun) usage() usage.CountedRun {
	return usage.CountedRun{ID: r.ID, TenantID: r.TenantID, AgentName: r.AgentName, UserID: r.UserID, UserName: r.UserName}
}

// Answer is an answer in progress. The caller calls Serve and Close, or Continue. The goroutine of
// Serve or Continue is the only one that reads the runtime.
type Answer struct {
	relay  *Relay
	run    AnswerRun // does not change after Start.Store
	memory account
	ctx    context.Context // its cause is the reason of the end, unless the run has reported one
	cancel context.CancelCauseFunc
	began  time.Time

	before   string      // the id of the event before the first one, or ""
	stream   *sse.Stream // of the client that sent the message, or nil
	appended *journal    // as of the last event; only its owner uses it
	runtime  *client.Client
	line     context.Context // of the connection to the runtime, which ends after ctx: see hangUp
	hangUp   context.CancelFunc
	unwatch  func() bool // stops the reaction to the end of ctx
	first    bool        // the first event was queued
	reported bool        // the client has received the end of the run
	answered bool        // the first part of the answer was received
	inputs   []string    // of the request
	tools    []runtimewire.ClientTool
	bound    bool       // the request has an output schema, images or files
	history  int        // bytes of the conversation for which memory is reserved
	files    account    // of the request's images and files
	span     trace.Span // without effect unless the request has one

	// The saver uses these.
	received   int64
	progressed time.Time
	saved      bool             // the end is stored, and the session still exists
	recorded   usage.CountedRun // as it counts
	budgets    []wire.Budget    // that are used up to their soft limits
	wait       Wait             // of an answer that waits
	pending    string           // wait as it is stored
	err        error            // of storing the end
	done       chan struct{}    // closed by remove, after saved, recorded, budgets and err are set

	mu        sync.Mutex       // guards the fields below, which do not change after the end
	begun     bool             // it is in the database
	continues string           // the session of the runtime, or ""
	former    usage.CountedRun // a run of the session that no hub has, or one without an id
	seeded    bool             // the run began with the stored conversation
	started   bool             // the runtime may have accepted the run
	resumed   *Former          // of an answer that the run continues, or nil
	events    *client.Stream   // nil until the runtime has accepted the run
	text      transcript
	journal   *journal // nil without readers
	end       *Ending  // nil in progress
	final     content  // as of the end
	concluded time.Time
}

// Serve sends the events of the answer to the client that sent the message: hub, those of the
// runtime as they are received, hub.saved and done. The end of the context of [Relay.Start] cancels
// the run, and so does a client that stops reading. The partial answer is stored.
//
// The client receives the bytes of the runtime without a journal. Other readers of the answer have
// one from their first on.
func (a *Answer) Serve(w http.ResponseWriter) error {
	stream, err := sse.NewStream(w, sse.StreamConfig{WriteTimeout: a.relay.cfg.WriteTimeout, OnError: func(error) { a.cancel(errGone) }})
	if err != nil {
		return err
	}

	a.stream = stream
	defer func() { _ = stream.Close() }() // it sends the last events; OnError has the error
	a.relayRun()
	return nil
}

// Continue relays the answer to its journal until its end, and then calls ended. The end of the
// context of [Relay.Start] cancels the run. The caller calls neither Serve nor Close.
func (a *Answer) Continue(ended func()) {
	a.relay.owners.Go(func() {
		defer ended()
		if a.protected(a.relayRun) {
			return
		}

		a.cancel(errPanicked)
		// Without the last events, readers get what is stored.
		if a.end != nil || !a.protected(func() { _ = a.complete(endingOf(errPanicked)) }) {
			a.relay.dropJournal(a)
		}
	})
}

// protected reports whether a function returns. A panic is logged, as that of an HTTP handler, and
// does not end the hub.
func (a *Answer) protected(do func()) (returned bool) {
	defer func() {
		if p := recover(); p != nil {
			a.relay.store.Logger.Error("panic", "panic", fmt.Sprint(p), "run_id", a.run.ID, "stack", string(debug.Stack()))
		}
	}()
	do()
	return true
}

// Before returns the id of the event before the first one of an answer that continues a run, or "".
func (a *Answer) Before() string { return a.before }

// Run returns the run of the answer, which is stored.
func (a *Answer) Run() AnswerRun { return a.run }

// relayRun forwards the events of the answer, and stores it.
func (a *Answer) relayRun() {
	if err := a.forward(); err != nil {
		denied := a.denied()
		a.cancel(cmp.Or(denied, err))
		a.awaitUsage()
	}

	_ = a.complete(a.ending()) // the error is logged
}

// complete stores the answer and queues its last events, once. It returns the error of storing it.
func (a *Answer) complete(end Ending) error {
	if a.end != nil {
		return nil
	}

	saved, err := a.finish(end)
	if err != nil {
		end, a.reported = failed(kindHub, wire.Unavailable, "The answer could not be stored."), false
	}

	if !a.first { // the runtime has rejected the run
		a.queue(a.beginning())
	}

	a.queueLast(end, saved)
	a.relay.endJournal(a)
	return err
}

// cancelRun cancels the run when ctx has ended. The stream is read until its end, which has the
// usage, unless that takes too long or is of no use.
func (a *Answer) cancelRun() {
	defer a.hangUp()
	within := a.relay.cfg.EndTimeout
	switch cause := context.Cause(a.ctx); {
	case errors.Is(cause, api.ErrAccessEnded):
		within = min(within, lastEvents)
	case errors.Is(cause, errGone), errors.Is(cause, errCancelled), errors.Is(cause, errShutdown), errors.Is(cause, context.Canceled):
	case errors.Is(cause, errTooLong), errors.Is(cause, errMemory), errors.Is(cause, errEndless):
	default:
		return
	}

	ctx, cancel := context.WithTimeout(a.line, within)
	defer cancel()
	err := a.events.Cancel()
	if errors.Is(err, errors.ErrUnsupported) {
		_, err = a.runtime.Cancel(ctx, a.run.ID)
	}

	if err == nil {
		<-ctx.Done()
	}
}

// progress cancels an answer whose runtime sends nothing or too much. It reports whether the answer
// is in the database and in progress.
func (a *Answer) progress(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.begun || a.end != nil {
		return false
	}

	var received int64
	if a.events != nil {
		received = a.events.Received()
	}

	if received != a.received {
		a.received, a.progressed = received, now
	}

	switch {
	case now.Sub(a.progressed) > a.relay.cfg.IdleTimeout:
		a.cancel(errIdle)
	case now.Sub(a.began) > a.relay.cfg.RunTimeout, received > maxReceived:
		a.cancel(errEndless)
	}

	return true
}

// due returns the content if it should be stored. Other hubs send that of an answer that is
// followed.
func (a *Answer) due(followed bool) (content, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.end != nil {
		return content{}, false
	}

	return a.text.due(followed)
}

// unsaved makes the content due again.
func (a *Answer) unsaved() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text.changed, a.text.stored = true, 0
}

// ending returns how the answer ended: as the run has reported, else by the cause of the context.
// Only the goroutine of the caller changes the end that the run has reported.
func (a *Answer) ending() Ending {
	if a.reported {
		return *a.text.end
	}

	return endingOf(context.Cause(a.ctx))
}

// finish closes the connection to the runtime, which cancels a run in progress, and stores the
// answer. It reports whether the answer is stored. If the database is unavailable, it returns
// after StoreTimeout, and the relay continues to try.
func (a *Answer) finish(end Ending) (bool, error) {
	defer a.relay.open.Done()
	if a.unwatch != nil {
		a.unwatch()
	}

	if a.events != nil {
		_ = a.events.Close() // the run has ended, or ends now
	}

	a.hangUp()
	a.conclude(end)
	late := time.NewTimer(a.relay.cfg.StoreTimeout)
	defer late.Stop()
	select {
	case <-a.done:
		return a.saved, a.err
	case <-late.C:
		return false, db.ErrUnavailable
	}
}

// conclude ends the answer, and adds it to those that the relay stores.
func (a *Answer) conclude(end Ending) {
	cause := context.Cause(a.ctx)
	a.cancel(nil)
	if end.Status != StatusFailed { // the status is the reason
		end.Failure = wire.ChatError{}
	}

	a.mu.Lock()
	a.end, a.concluded = &end, time.Now()
	if end.Status == StatusWaiting && len(a.text.waits) == 0 { // no runtime has accepted the answers
		a.text.blocks = blocksOf(a.resumed.Text, a.resumed.Content)
	}

	a.final = a.text.content()
	a.mu.Unlock()
	a.relay.mu.Lock()
	a.relay.ended = append(a.relay.ended, a)
	a.relay.unsaved++
	a.relay.mu.Unlock()
	if errors.Is(cause, errGone) || errors.Is(cause, context.Canceled) {
		time.AfterFunc(storeLater, a.relay.storeEnded)
	} else {
		a.relay.storeEnded()
	}
}

// nextSession returns the session of the runtime that the next message continues, or "" if that
// message sends the stored conversation: the runtime has perhaps not stored the conversation that
// it received, or has ignored that a session was required.
func (a *Answer) nextSession() string {
	used := a.text.runtimeSession
	switch {
	case used == "":
		return a.continues
	case a.continues != "" && used != a.continues, a.seeded && !a.text.responded:
		return ""
	}

	return used
}

// Close stores the answer if it was not served.
func (a *Answer) Close() {
	a.cancel(errGone)
	_ = a.complete(a.ending()) // the error is logged
}
