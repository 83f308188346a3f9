package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/seed93082962/agenthost/internal/runvalue"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// events is the client of an answer: it yields the events that the relay writes, in the call that
// writes them. The end of the run is yielded after the answer is stored.
type events struct {
	yield   func(runtimewire.Event, error) bool
	session string // of the hub
	whole   bool   // increments of messages are not yielded
	header  http.Header
	rest    []byte // the start of an event

	prepended string              // the notice before the answer, until the run has begun
	end       runtimewire.Payload // of the run
	stopped   bool
}

var errStopped = errors.New("the client does not read the answer")

// Header implements http.ResponseWriter.
func (w *events) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}

	return w.header
}

// WriteHeader implements http.ResponseWriter.
func (*events) WriteHeader(int) {}

// Flush implements http.Flusher.
func (*events) Flush() {}

// Write yields the events of encoded ones.
func (w *events) Write(p []byte) (int, error) {
	if w.stopped {
		return 0, errStopped
	}

	w.rest = append(w.rest, p...)
	end := bytes.LastIndex(w.rest, []byte("\n\n")) + 2
	if end < 2 {
		return len(p), nil
	}

	decoder := sse.NewDecoder(bytes.NewReader(w.rest[:end]))
	decoder.SetLimits(maxEvent, maxEvent)
	for ev, err := range decoder.Events() {
		if err == nil {
			err = w.event(ev, decoder.Buffered())
		}

		if err != nil {
			return 0, err
		}
	}

	w.rest = append(w.rest[:0], w.rest[end:]...)
	if cap(w.rest) > 64<<10 && len(w.rest) == 0 {
		w.rest = nil
	}

	return len(p), nil
}

const maxEvent = runvalue.MaxData + 64<<10

// event yields an event of the runtime, and what it has for those of the hub.
func (w *events) event(ev sse.Event, more bool) error {
	payload, err := runtimewire.DecodeEvent(ev.Type, ev.Data)
	if err != nil {
		return err
	}

	switch p := payload.(type) {
	case *runtimewire.Unknown:
		if p.Name == "hub" {
			return w.ofHub(p.Data)
		}

		return nil
	case *runtimewire.Result, *runtimewire.Cancelled, *runtimewire.Fault:
		w.end = p
		return nil
	case *runtimewire.Done:
		if w.end != nil {
			return w.send(w.end, false)
		}

		return nil
	case *runtimewire.System:
		if p.Init != nil {
			p.SessionID = w.session
			if err := w.send(p, w.prepended != ""); err != nil || w.prepended == "" {
				return err
			}

			return w.notice(w.prepended)
		}
	}

	return w.send(payload, more)
}

// ofHub handles an event of the hub.
func (w *events) ofHub(data []byte) error {
	var in struct {
		Type     string          `json:"type"`
		AIGC     json.RawMessage `json:"aigc"`
		Position string          `json:"position"`
		Text     string          `json:"text"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}

	switch {
	case in.Type == "hub" && len(in.AIGC) > 0:
		label, err := json.Marshal(map[string]any{"metadata": map[string]string{"aigc": string(in.AIGC)}})
		if err != nil {
			return err
		}

		return w.send(&runtimewire.Unknown{Name: "metadata", Data: label}, true)
	case in.Type == "hub.notice" && in.Position == "prepend":
		w.prepended = in.Text
	case in.Type == "hub.notice":
		return w.notice(in.Text)
	}

	return nil
}

// notice yields the explicit label of an answer as a message of its own.
func (w *events) notice(text string) error {
	err := w.send(&runtimewire.PartialMessage{Partial: runtimewire.Partial{Type: runtimewire.PartialText, Text: text}}, true)
	if err == nil {
		err = w.send(&runtimewire.Assistant{Type: "assistant", SessionID: w.session, Message: runtimewire.AssistantMessage{
			Role: runvalue.RoleAssistant, Content: []runtimewire.Block{{Type: runtimewire.PartialText, Text: text}},
		}}, false)
	}

	return err
}

func (w *events) send(p runtimewire.Payload, more bool) error {
	if _, increment := p.(*runtimewire.PartialMessage); increment && w.whole {
		return nil
	}

	if w.stopped {
		return errStopped
	}

	if !w.yield(runtimewire.Event{Payload: p, More: more}, nil) {
		w.stopped = true
		return errStopped
	}

	return nil
}

// fail yields an error.
func (w *events) fail(err error) {
	if !w.stopped {
		w.stopped = true
		w.yield(runtimewire.Event{}, err)
	}
}
