package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// pageEntries is the number of entries of a page.
const pageEntries = 100

// entries iterates over the entries of a session, with its agent. A page is in memory at a time.
func (s *server) entries(ctx context.Context, session string, memory *httpapi.Memory) iter.Seq2[storedEntry, error] {
	return func(yield func(storedEntry, error) bool) {
		for after := int64(0); ; {
			t, err := s.cfg.Host.Transcript(ctx, session, after, pageEntries)
			if err != nil {
				yield(storedEntry{}, err)
				return
			}

			for i := range t.Entries {
				if !yield(storedEntry{t.Entries[i], t.AgentID}, nil) {
					return
				}
			}

			if after = t.Next; after == 0 {
				return
			}
		}
	}
}

type storedEntry struct {
	wire.TranscriptEntry
	agentID string
}

// conversationUntil returns the conversation of a session up to the end of a response.
func (a *responseRun) conversationUntil(ctx context.Context, id responseID) (conversation, error) {
	var talk conversation
	found := false
	names := map[string]string{} // of tools by the id of a call
	for e, err := range a.s.entries(ctx, id.session, a.memory) {
		if err != nil {
			return nil, a.orNoPrevious(err)
		}

		if found && e.RunID != id.run {
			break
		}

		found = found || e.RunID == id.run
		size := 0
		for i := range e.Content {
			size += talk.addBlock(e.Role, &e.Content[i], names)
		}

		if e.Type == runvalue.EntryCompaction && len(talk) == 0 { // the messages before it are no longer stored
			talk.add(runvalue.RoleUser, e.Summary)
			size += len(e.Summary)
		}

		if err := a.memory.Add(2 * size); err != nil {
			return nil, err
		}
	}

	if !found {
		return nil, a.noPrevious()
	}

	return talk, nil
}

// addBlock appends a stored block as a text, and returns its size.
func (c *conversation) addBlock(role string, b *wire.TranscriptBlock, names map[string]string) int {
	switch b.Type {
	case "tool_use":
		names[b.ID] = b.Name
		c.addCall(b.Name, string(b.Input))
	case "tool_result":
		c.addOutput(names[b.ToolUseID], b.Output)
	case runvalue.PartImage, runvalue.PartFile: // its bytes are not in the transcript
		c.add(role, fmt.Sprintf("(%s %q, which is not available here)", b.Type, b.Name))
	default: // thinking has no text here
		c.add(role, b.Text)
	}

	return len(b.Text) + len(b.Input) + len(b.Output)
}

// showResponse handles GET /responses/:response.
func (s *server) showResponse(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	id, ok := parseResponseID(ps.ByName("response"))
	if !ok {
		return errNoResponse
	}

	query := r.URL.Query()
	if query.Get("stream") == "true" {
		if _, err := s.cfg.Host.Transcript(r.Context(), id.session, 0, 1); isNotFound(err) {
			return errNoResponse
		} else if err != nil {
			return err
		}

		return s.replay(w, r, id, query.Get("starting_after"))
	}

	memory := &httpapi.Memory{Reserve: s.cfg.Host.Reserve}
	defer memory.Release()
	found, err := s.load(r.Context(), id, memory)
	if err != nil {
		return err
	}

	return httpapi.WriteJSON(w, http.StatusOK, found)
}

// load returns a stored response. If it has no end and its run is not active, it has failed.
func (s *server) load(ctx context.Context, id responseID, memory *httpapi.Memory) (*resource, error) {
	found, err := s.read(ctx, id, memory)
	if err != nil || found.Status != inProgress {
		return found, err
	}

	active, err := s.cfg.Host.Active(ctx, id.run)
	if err != nil || active {
		return found, err
	}

	// The end of a run is stored before the run is no longer active.
	if found, err = s.read(ctx, id, memory); err == nil && found.Status == inProgress {
		found.fail(errLost)
	}

	return found, err
}

// read reads a response from its session.
func (s *server) read(ctx context.Context, id responseID, memory *httpapi.Memory) (*resource, error) {
	found := stored{id: id, resource: resource{
		ID: id.String(), Object: "response", Status: inProgress, Store: true, ToolChoice: "auto", unused: defaults,
	}}
	found.Background = id.background
	for e, err := range s.entries(ctx, id.session, memory) {
		if isNotFound(err) {
			return nil, errNoResponse
		}

		if err == nil && e.RunID == id.run {
			found.add(&e)
			err = memory.Add(3 * found.output.grown())
		}

		if err != nil {
			return nil, err
		}
	}

	if found.Model == "" {
		return nil, errNoResponse
	}

	found.Output = found.output.items
	found.complete()
	return &found.resource, nil
}

// errLost is the error of a response whose server has ended without storing its end.
var errLost = &failure{status: http.StatusInternalServerError, message: "the server stopped before the response was complete"}

var errNoResponse = &failure{status: http.StatusNotFound, message: "there is no response with this id", code: "response_not_found"}

// stored is a response that is read from a session.
type stored struct {
	resource
	id         responseID
	output     output
	structured bool   // the run has an output schema
	text       string // of the last message of such a run

	begun  bool            // the model has responded: the messages before that are the history of the request
	answer map[string]bool // the ids of calls whose result the client has sent
}

// add adds an entry of the run.
func (r *stored) add(e *storedEntry) {
	at := time.Time(e.Time).Unix()
	if r.Model == "" {
		r.Model, r.CreatedAt = e.agentID, at
		r.output.label, r.output.of = e.agentID, r.id
		r.answer = map[string]bool{}
	}

	switch {
	case e.Type == runvalue.EntryMessage:
		r.message(e)
	case e.Type == runvalue.EntryEvent:
		r.event(e.Event, at)
	}
}

func (r *stored) message(e *storedEntry) {
	var blocks []wire.Block
	if len(e.Content) == 0 {
		return
	}

	for i := range e.Content {
		b := &e.Content[i]
		switch {
		case b.Type == "tool_result" && !r.answer[b.ToolUseID]:
			r.output.called(&wire.ToolResultDetail{ToolUseID: b.ToolUseID, ToolName: r.output.calls[b.ToolUseID].Name, Output: b.Output, IsError: b.IsError})
		case e.Role == runvalue.RoleAssistant:
			blocks = append(blocks, wire.Block{Type: b.Type, Text: b.Text, Thinking: b.Thinking, ID: b.ID, Name: b.Name, Input: b.Input})
		}
	}

	if r.structured {
		for i := range blocks {
			r.text = cmp.Or(blocks[i].Text, r.text)
		}

		blocks = withoutText(blocks)
	}

	r.output.message(blocks)
	if !r.begun && e.Role == runvalue.RoleUser && e.Content[0].Type != "tool_result" {
		r.output.items = nil
	}
}

// event adds the end of the run, and notes the answers of the client.
func (r *stored) event(data json.RawMessage, at int64) {
	var kind struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(data, &kind) != nil {
		return // the host has encoded it
	}

	payload, err := wire.DecodeEvent(kind.Type, data)
	if err != nil {
		return
	}

	switch p := payload.(type) {
	case *wire.System:
		r.structured = r.structured || p.Init != nil && p.Structured
		if p.Subtype == runvalue.SystemAnswered && p.Kind == runvalue.InputClientTool {
			r.answer[p.ToolUseID] = true
		}
	case *wire.Unknown:
		r.Metadata = withLabels(r.Metadata, p)
	case *wire.Assistant:
		r.begun = true
	case *wire.Result:
		if r.structured {
			p.Result = &r.text // the stored event has none
			r.output.final(p)
		}

		r.output.wait(r.id.session, p.Pending)
		r.finish(at, p, r.structured)
		if p.IsError {
			r.CompletedAt = nil
			r.fail(failed(p))
		}
	case *wire.Cancelled:
		r.Status, r.Usage = "cancelled", responseUsageOf(p.Usage)
		if p.Reason == wire.ReasonShutdown {
			r.fail(errLost)
		}
	case *wire.Fault:
		r.fail(&failure{message: "internal error"})
	}
}

// deletion is the body of DELETE /responses/:response.
type deletion struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // response
	Deleted bool   `json:"deleted"`
}

// deleteResponse handles DELETE /responses/:response. It deletes the conversation of the response.
func (s *server) deleteResponse(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	id, ok := parseResponseID(ps.ByName("response"))
	if !ok {
		return errNoResponse
	}

	if _, err := s.cfg.Host.Transcript(r.Context(), id.session, 0, 1); isNotFound(err) {
		return errNoResponse
	} else if err != nil {
		return fmt.Errorf("find response: %w", err)
	}

	if err := s.cfg.Host.DeleteSession(r.Context(), id.session); err != nil {
		return err
	}

	return httpapi.WriteJSON(w, http.StatusOK, deletion{ID: id.String(), Object: "response", Deleted: true})
}
