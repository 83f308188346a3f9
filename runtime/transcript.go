package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/content"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// recorded stores events in the session before they are sent.
type recorded struct {
	engine.Output
	x *execution
}

// Emit implements engine.Output.
func (o recorded) Emit(p wire.Payload) {
	o.x.record(p)
	o.Output.Emit(p)
}

// record stores an event in the session, without the texts that its messages have. A run continues
// if that fails: its messages are stored, or it fails because they are not.
func (x *execution) record(p wire.Payload) {
	if x.session == nil {
		return
	}

	switch event := p.(type) {
	case *wire.PartialMessage, *wire.Done:
		return
	case *wire.System:
		if event.Subtype == runvalue.SystemAnswered {
			return // it is stored with the end of the wait
		}
	case *wire.Assistant:
		if event.ParentToolUseID == nil {
			short := *event
			short.Message.Content = []wire.Block{}
			p = &short
		}
	case *wire.ToolResult:
		if event.ParentToolUseID == nil {
			short := *event
			short.Result.Output = ""
			p = &short
		}
	case *wire.Result:
		short := *event
		short.Result = nil
		p = &short
	}

	text, err := wire.Event{Payload: p}.Append(nil)
	if err == nil {
		err = x.session.Record(text)
	}

	if err != nil {
		x.rt.cfg.Logger.Error("record event in session", "err", err, "session_id", x.info.SessionID, "run_id", x.info.RunID)
	}
}

const (
	defaultEntries = 100
	maxEntries     = 1000

	// maxEntryText bounds each text of an entry, in bytes, and maxEntryBytes all of them together.
	maxEntryText  = 256 << 10
	maxEntryBytes = 4 << 20

	// maxPageValues bounds the JSON values of a page, and so of an entry. A client accepts twice as
	// many. blockValues are those of an entry, and of a block, without its input.
	maxPageValues = 1 << 17
	blockValues   = 16
)

// entryLimit bounds an event, and the input of a call.
var entryLimit = jsonlimit.Limit{Values: maxPageValues / 2, Depth: 1000}

var errSessionNotFound = reject(http.StatusNotFound, "Session not found")

// showSession handles GET /v1/sessions/:sessionId.
func (rt *Runtime) showSession(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return invalid("the query string is malformed")
	}

	after, err := queryNumber(query, "after", 0, 0, 1<<53)
	if err != nil {
		return err
	}

	limit, err := queryNumber(query, "limit", defaultEntries, 1, maxEntries)
	if err != nil {
		return err
	}

	t, err := rt.Transcript(r.Context(), ps.ByName("sessionId"), after, int(limit))
	if err != nil {
		return err
	}

	return httpapi.WriteJSON(w, http.StatusOK, t)
}

// deleteSession handles DELETE /v1/sessions/:sessionId.
func (rt *Runtime) deleteSession(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	if err := rt.DeleteSession(r.Context(), ps.ByName("sessionId")); err != nil {
		return err
	}

	w.WriteHeader(http.StatusNoContent)
	return nil
}

// DeleteSession deletes a stored conversation. A malformed id is an unknown one, which is no error.
func (rt *Runtime) DeleteSession(ctx context.Context, id string) error {
	if !ids.ValidSession(id) {
		return nil
	}

	err := rt.cfg.Sessions.Delete(ctx, id)
	if errors.Is(err, session.ErrBusy) {
		return errSessionBusy(id)
	}

	return err
}

// queryNumber returns a number of the query.
func queryNumber(query url.Values, name string, absent, least, most int64) (int64, error) {
	text := query.Get(name)
	if text == "" {
		return absent, nil
	}

	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return 0, invalid(name + " must be an integer from " + strconv.FormatInt(least, 10) + " to " + strconv.FormatInt(most, 10))
	}

	return n, nil
}

// Transcript returns what happened in a stored session: the entries after a seq, at most limit of
// them. It returns fewer if they are long, but at least one. An unknown session is an [*Error].
func (rt *Runtime) Transcript(ctx context.Context, id string, after int64, limit int) (wire.Transcript, error) {
	if !ids.ValidSession(id) {
		return wire.Transcript{}, errSessionNotFound
	}

	found, err := rt.cfg.Sessions.Transcript(ctx, id, after, limit)
	if errors.Is(err, session.ErrUnknown) {
		return wire.Transcript{}, errSessionNotFound
	}

	if err != nil {
		return wire.Transcript{}, err
	}

	t := wire.Transcript{SessionID: found.ID, AgentID: found.AgentID, CreatedAt: wire.Time(found.Created), Entries: []wire.TranscriptEntry{}, Total: found.Total}
	last, room := after, maxPageValues
	for _, e := range found.Entries {
		entry, values := entryOf(e)
		if room -= values; room < 0 && len(t.Entries) > 0 {
			break
		}

		t.Entries = append(t.Entries, entry)
		last = e.Seq
	}

	if len(found.Entries) > 0 && last < found.Total {
		t.Next = last
	}

	return t, nil
}

// entryOf returns an entry, and the number of its JSON values, which is at most maxPageValues.
func entryOf(e session.TranscriptEntry) (wire.TranscriptEntry, int) {
	out := wire.TranscriptEntry{Seq: e.Seq, Time: wire.Time(e.Time), RunID: e.Run}
	room := entryRoom{bytes: maxEntryBytes, values: maxPageValues - blockValues}
	switch {
	case e.Message != nil:
		out.Type, out.Role = runvalue.EntryMessage, string(e.Message.Role)
		for i := range e.Message.Content {
			if room.values < blockValues {
				break
			}

			if b, ok := room.block(&e.Message.Content[i]); ok {
				out.Content = append(out.Content, b)
			}
		}
	case e.Event != nil:
		out.Type = runvalue.EntryEvent
		event, values, err := compact(e.Event)
		if err != nil {
			event, values = withoutContent(e.Event), blockValues
		}

		out.Event = event
		room.values -= values
	default:
		out.Type = runvalue.EntryCompaction
		if len(e.Compacted) > 0 {
			out.Summary, _ = excerpt.Ends(e.Compacted[0].Text(), maxEntryText)
			out.Kept = len(e.Compacted) - 1
		}
	}

	return out, maxPageValues - room.values
}

// compact returns JSON whose members occur once, and the number of its values. A session of a
// former version may have others, which clients reject.
func compact(data json.RawMessage) (json.RawMessage, int, error) {
	values, err := entryLimit.Count(data)
	if err != nil {
		return nil, 0, err
	}

	out, err := entryLimit.Compact(data)
	return out, values, err
}

// withoutContent returns the type of an event that has more values than a page.
func withoutContent(event json.RawMessage) json.RawMessage {
	var short struct {
		Type      string `json:"type"`
		Truncated bool   `json:"truncated"`
	}
	_ = json.Unmarshal(event, &short) // the runtime has encoded it
	short.Truncated = true
	text, _ := json.Marshal(short) // two plain values
	return text
}

// entryRoom is what the following blocks of a message may have.
type entryRoom struct{ bytes, values int }

// text returns a text, shortened to the room.
func (r *entryRoom) text(text string) (string, bool) {
	short, cut := excerpt.Ends(text, min(maxEntryText, r.bytes))
	r.bytes = max(0, r.bytes-len(short))
	return short, cut
}

// input returns the input of a call, or nil if there is no room for it.
func (r *entryRoom) input(input json.RawMessage) json.RawMessage {
	short, values, err := compact(input)
	if err != nil || values > r.values || len(short) > min(maxEntryText, r.bytes) {
		return nil
	}

	r.bytes -= len(short)
	r.values -= values
	return short
}

// block returns a block without what is only for upstream: signatures, encrypted thinking and
// unknown fields.
func (r *entryRoom) block(b *model.Block) (wire.TranscriptBlock, bool) {
	out := wire.TranscriptBlock{Type: string(b.Type)}
	switch b.Type {
	case model.BlockText:
		out.Text, out.Truncated = r.text(b.Text)
	case model.BlockThinking:
		if b.Text == "" {
			return out, false
		}

		out.Thinking, out.Truncated = r.text(b.Text)
	case model.BlockImage:
		out.Name, out.MediaType, out.Size = b.Name, b.Images[0].MediaType, b.Bytes()
	case model.BlockFile:
		out.Name, out.MediaType, out.Size = b.Name, content.Text, b.Bytes()
		if len(b.PDF) > 0 {
			out.MediaType = content.PDF
		}
	case model.BlockToolUse:
		out.ID, out.Name, out.Input = b.ID, b.Name, r.input(b.Input)
		out.Truncated = out.Input == nil && len(b.Input) > 0
	case model.BlockToolResult:
		out.ToolUseID, out.IsError, out.Images = b.ID, b.IsError, len(b.Images)
		out.Output, out.Truncated = r.text(b.Text)
	default:
		return out, false
	}

	r.values -= blockValues
	return out, true
}
