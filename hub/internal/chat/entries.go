package chat

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// entryBits is the number of bits of the seq of an entry that count the entries of one message. The
// bits before them are the seq of the message.
const entryBits = 20

// lastEntry returns the seq of the last entry of a message that is complete.
func lastEntry(seq int64) int64 { return (seq+1)<<entryBits - 1 }

// stored returns a session of the caller that is stored, with any agent that the caller may use.
func (s *Service) stored(ctx context.Context, caller api.Caller, id string) (session, error) {
	ref, err := owned(caller, "", id)
	if err != nil {
		return session{}, err
	}

	found, err := findSession(ctx, s.store.Read(), ref)
	if err == nil && found.Ephemeral {
		err = noSession()
	}

	if err == nil {
		err = s.enabledAgent(ctx, caller, found.AgentName)
	}

	return found, err
}

// Entries returns the entries of the conversation of a session of the caller after a seq, at most
// limit of them: what the hub has stored in the form of the transcript of a runtime. The label of
// an answer is an event "metadata". It fails with wire.NotFound if the caller has no such session.
func (s *Service) Entries(ctx context.Context, caller api.Caller, id string, after int64, limit int) (runtimewire.Transcript, error) {
	found, err := s.stored(ctx, caller, id)
	if err != nil {
		return runtimewire.Transcript{}, err
	}

	t := runtimewire.Transcript{
		SessionID: found.ID, AgentID: found.AgentName, CreatedAt: runtimewire.Time(found.CreatedAt), Total: lastEntry(found.Messages),
	}
	seq := max(after>>entryBits-1, 0) // of the message before the first one to be read
	all, err := messagesOf(ctx, s.store.Read(), found, seq, min(seq+int64(limit)+1, found.Messages))
	if err != nil {
		return t, err
	}

	runs, err := runsOf(ctx, s.store.Read(), found, seq, seq+int64(len(all)))
	if err != nil {
		return t, err
	}

	running, err := relay.SessionsInProgress(ctx, s.store.Read(), found.TenantID, []string{found.Key})
	if err != nil {
		return t, err
	}

	for i := range all {
		seq = all[i].Seq
		lost := seq < found.Messages || !running[found.Key]
		for _, e := range all[i].entries(found, runs, lost) {
			switch {
			case e.Seq <= after:
			case len(t.Entries) == limit:
				t.Next = t.Entries[limit-1].Seq
				return t, nil
			default:
				t.Entries = append(t.Entries, e)
			}
		}
	}

	if seq < found.Messages {
		t.Next = lastEntry(seq)
	}

	return t, nil
}

// DeleteEntries deletes a session of the caller, see [Service.Entries].
func (s *Service) DeleteEntries(ctx context.Context, caller api.Caller, id string) error {
	found, err := s.stored(ctx, caller, id)
	if err != nil {
		return err
	}

	return s.DeleteSession(ctx, caller, found.AgentName, id)
}

// Reserve returns a function that reserves memory for the requests of a tenant, see [relay.Relay].
func (s *Service) Reserve(tenantID string) func(bytes int) error { return s.relay.Reserve(tenantID) }

// Active reports whether a run of the caller is in progress, in any hub.
func (s *Service) Active(ctx context.Context, caller api.Caller, runID string) (bool, error) {
	key, err := relay.SessionOf(ctx, s.store.Read(), caller.TenantID, caller.UserID, runID)
	return key != "", err
}

// CancelOwn cancels a run of the caller. One that is not in progress is ignored.
func (s *Service) CancelOwn(ctx context.Context, caller api.Caller, runID string) error {
	key, err := relay.SessionOf(ctx, s.store.Read(), caller.TenantID, caller.UserID, runID)
	if err != nil || key == "" {
		return err
	}

	if _, err = s.relay.Cancel(ctx, caller.TenantID, key, runID); errors.Is(err, wire.Conflict) {
		return nil
	}

	return err
}

// entries returns a message as entries. runs has the runs of the answers by their seqs. lost means
// that a partial answer is not in progress.
func (m message) entries(in session, runs map[int64]string, lost bool) []runtimewire.TranscriptEntry {
	run := m.RunID
	if m.Role == roleUser {
		run = runs[m.Seq+1]
	}

	var all []runtimewire.TranscriptEntry
	add := func(e runtimewire.TranscriptEntry) {
		e.Seq, e.Time, e.RunID = m.Seq<<entryBits|int64(len(all)), runtimewire.Time(m.CreatedAt), run
		all = append(all, e)
	}
	event := func(p any) {
		data, _ := json.Marshal(p) // the events have a JSON form
		add(runtimewire.TranscriptEntry{Type: runvalue.EntryEvent, Event: data})
	}
	if m.Role == roleUser {
		content := []runtimewire.TranscriptBlock{{Type: runtimewire.PartialText, Text: m.Text}}
		if m.Files > 0 {
			content = content[:0]
			for _, b := range partsOf(m.Content) {
				content = append(content, runtimewire.TranscriptBlock{Type: b.Type, Text: b.Text, Name: b.Name, MediaType: b.MediaType, Size: b.Size})
			}
		}

		add(runtimewire.TranscriptEntry{Type: runvalue.EntryMessage, Role: roleUser, Content: content})
		return all
	}

	if len(m.AIGC) > 0 {
		event(map[string]any{"type": "metadata", "metadata": map[string]string{"aigc": string(m.AIGC)}})
	}

	v := m.view(in.ID, func(e wire.ChatError) *wire.ChatError { return &e })
	output := relay.StructuredOf(v.Content)
	if output != nil {
		event(&runtimewire.System{Type: "system", Subtype: runvalue.SystemInit, Init: &runtimewire.Init{Structured: true}})
	}

	for _, content := range grouped(v.Content) {
		e := runtimewire.TranscriptEntry{Type: runvalue.EntryMessage, Role: roleAssistant, Content: content}
		if content[0].Type == resultBlock {
			e.Role = roleUser // as in the conversation of a model
		}

		add(e)
	}

	if end := m.end(in.ID, v, lost); end != nil {
		if result, ok := end.(*runtimewire.Result); ok {
			result.Structured = output
		}

		event(end)
		all[len(all)-1].Seq = lastEntry(m.Seq)
	}

	return all
}

const resultBlock = "tool_result"

// grouped returns the blocks of the agent itself. Results of tools and other blocks, and two blocks
// of one type, such as the texts of two messages, are in different groups.
func grouped(content json.RawMessage) [][]runtimewire.TranscriptBlock {
	var groups [][]runtimewire.TranscriptBlock
	former := ""
	for raw := range jsonlimit.Elements(content) {
		var b struct {
			runtimewire.TranscriptBlock

			Parent string `json:"parent_tool_use_id"`
		}
		if jsonlimit.Unmarshal(raw, &b) != nil || b.Parent != "" {
			continue
		}

		switch b.Type {
		case runtimewire.PartialText, runtimewire.PartialThinking, runtimewire.PartialToolUse, resultBlock:
		default:
			continue
		}

		if len(groups) == 0 || b.Type == former || (b.Type == resultBlock) != (former == resultBlock) {
			groups = append(groups, nil)
		}

		former = b.Type
		groups[len(groups)-1] = append(groups[len(groups)-1], b.TranscriptBlock)
	}

	return groups
}

// end returns the event of the end of the run of an answer, or nil.
func (m message) end(sessionID string, v wire.ChatMessage, lost bool) runtimewire.Payload {
	var used runtimewire.Usage
	if m.Usage != nil {
		used = *m.Usage
	}

	result := &runtimewire.Result{Type: "result", Subtype: runvalue.ResultSuccess, RunID: m.RunID, SessionID: sessionID, Usage: used}
	switch v.Status {
	case relay.StatusCompleted:
	case relay.StatusWaiting:
		result.Subtype, result.StopReason, result.Pending = runvalue.ResultInput, runvalue.ResultInput, v.Pending
	case relay.StatusFailed:
		result.Subtype, result.IsError = runvalue.ResultExecution, true
		result.ErrorType, result.Errors = m.Failure.Code, []string{m.Failure.Message}
	case relay.StatusCancelled:
		return &runtimewire.Cancelled{Type: "cancelled", RunID: m.RunID, Reason: runtimewire.ReasonClientRequest, Usage: used}
	default:
		if !lost {
			return nil
		}

		return &runtimewire.Fault{Type: "error", Error: "The answer was lost: its hub was killed.", RunID: m.RunID, Usage: used}
	}

	return result
}
