package openai

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// exchange is a request and the run that it starts, in every protocol.
type exchange struct {
	s       *server
	w       http.ResponseWriter
	memory  *httpapi.Memory
	agentID string
	created int64
	stream  bool // the response is a stream of events
	report  bool // the client is a proxy that counts the tokens of runs

	runID   string // "" before the first event of the run
	session string
	spent   wire.RunUsage
	labels  wire.Metadata // of the host

	// The run has an output schema: the output is its only text.
	structured bool

	result *wire.Result // nil: the run was cancelled or failed
	err    error        // of the run
}

func (s *server) newExchange(w http.ResponseWriter, r *http.Request, memory *httpapi.Memory, agentID string, stream bool) *exchange {
	return &exchange{
		s: s, w: w, memory: memory, agentID: agentID, created: time.Now().Unix(),
		stream: stream, report: r.Header.Get("Te") == "trailers",
	}
}

// receive passes the events of a run to handle. Its error is that of the run, or of the host.
func (x *exchange) receive(events iter.Seq2[wire.Event, error], handle func(wire.Event) error) error {
	for event, err := range events {
		if err == nil {
			x.note(event.Payload)
			err = handle(event)
		}

		if err != nil {
			return err
		}
	}

	if x.err == nil && x.result == nil {
		return errors.New("the run has no result")
	}

	return x.err
}

// note notes the ids of the run, and its end.
func (x *exchange) note(p wire.Payload) {
	switch p := p.(type) {
	case *wire.System:
		if p.Init == nil {
			return
		}

		x.runID, x.session, x.spent.Model = p.RunID, p.SessionID, p.Model
		x.structured = p.Structured
		x.w.Header().Set("X-Run-Id", x.runID)
		if x.report && !x.stream {
			x.w.WriteHeader(http.StatusProcessing) // the proxy learns the id, by which it cancels the run
		}
	case *wire.Unknown:
		x.labels = withLabels(x.labels, p)
	case *wire.Result:
		x.result = p
		x.spend(p.Usage, p.Others)
		if p.IsError {
			x.err = failed(p)
		}
	case *wire.Cancelled:
		x.spend(p.Usage, p.Others)
		x.err = &failure{status: http.StatusServiceUnavailable, message: "the run was cancelled", code: codeCancelled, ran: true}
	case *wire.Fault:
		x.spend(p.Usage, p.Others)
		x.err = &failure{status: http.StatusInternalServerError, message: "internal error, run " + x.runID, ran: true}
	}
}

// withLabels returns metadata with those of an event "metadata" of the host, which is of no
// runtime.
func withLabels(m wire.Metadata, e *wire.Unknown) wire.Metadata {
	var in struct {
		Metadata wire.Metadata `json:"metadata"`
	}
	if e.Name != "metadata" || json.Unmarshal(e.Data, &in) != nil {
		return m
	}

	all := wire.Metadata{}
	maps.Copy(all, m)
	maps.Copy(all, in.Metadata)
	return all
}

// spend records the tokens of the run.
func (x *exchange) spend(usage wire.Usage, others map[string]wire.Usage) {
	x.spent.Usage, x.spent.Others = usage, others
	switch {
	case x.report && x.stream:
		x.w.Header().Set(http.TrailerPrefix+runvalue.UsageHeader, x.spent.Header())
	case x.report:
		x.w.Header().Set(runvalue.UsageHeader, x.spent.Header())
	}
}

// waits reports whether the run has ended waiting for the client.
func (x *exchange) waits() bool { return x.result != nil && x.result.Subtype == runvalue.ResultInput }

// openStream begins the response of a stream. A failed write cancels the run.
func (x *exchange) openStream(cancel context.CancelFunc) (*sse.Stream, error) {
	x.w.Header().Set("Cache-Control", "no-cache, no-transform, no-store")
	return sse.NewStream(x.w, sse.StreamConfig{
		Heartbeat: x.s.cfg.Heartbeat, WriteTimeout: x.s.cfg.WriteTimeout,
		OnError: func(error) { cancel() },
	})
}

// forget deletes the session of a run that is not stored, unless it waits.
func (x *exchange) forget(ctx context.Context) {
	if x.session == "" || x.waits() || x.s.cfg.Retains {
		return
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	if err := x.s.cfg.Host.DeleteSession(ctx, x.session); err != nil {
		x.s.cfg.Logger.Warn("delete session", "err", err, "session_id", x.session, "run_id", x.runID)
	}
}

const deleteTimeout = 10 * time.Second

// rejectedAs reports whether err is the rejection of a host with one of these texts.
func rejectedAs(err error, texts ...string) bool {
	host, ok := errors.AsType[rejection](err)
	if !ok {
		return false
	}

	_, body := host.Rejection()
	return slices.Contains(texts, body.Error)
}

// isNotWaiting reports whether a host rejected answers because nothing waits for them.
func isNotWaiting(err error) bool {
	return rejectedAs(err, runvalue.NotWaiting, runvalue.UnknownSession)
}

// isTaken reports whether a host rejected a run because its session is not as the client expects.
func isTaken(err error) bool {
	return rejectedAs(err, runvalue.NotWaiting, runvalue.UnknownSession, runvalue.SessionChanged, runvalue.SessionBusy)
}

// isNotFound reports whether a host does not know a session.
func isNotFound(err error) bool {
	host, ok := errors.AsType[rejection](err)
	if !ok {
		return false
	}

	status, _ := host.Rejection()
	return status == http.StatusNotFound
}
