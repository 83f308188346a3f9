package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/chat/relay"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/leaf/paging"
	"github.com/seed93082962/agenthost/internal/runvalue"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// TranscriptList is a page of what happened in the conversation of a session, as its runtime has
// stored it. It has fewer entries than the size of the page if they are long.
type TranscriptList struct {
	api.List[wire.TranscriptEntry]

	Partial bool `json:"partial,omitempty"` // several replicas of the runtime have a part: the entries are those of one
}

// TranscriptPage selects entries. Pages have no numbers: a summary of the conversation may drop the
// entries before it.
type TranscriptPage struct {
	Size int
	Next string // the cursor of a former page, or ""
}

// Transcript returns what happened in a session of the caller: every tool call, denial, duration
// and token of the runs. It fails with wire.NotFound if the runtime has no transcript, with
// wire.InvalidRequest for a cursor of another transcript, and with code.AgentNotDeployed or
// code.UpstreamFailed if there is no runtime.
func (s *Service) Transcript(ctx context.Context, caller api.Caller, agentName, id string, page TranscriptPage) (TranscriptList, error) {
	ref, err := s.ownedBy(ctx, caller, agentName, id)
	if err != nil {
		return TranscriptList{}, err
	}

	return s.transcript(ctx, ref, page)
}

// AnyTranscript is Transcript for a session that the caller may see.
func (s *Service) AnyTranscript(ctx context.Context, caller api.Caller, id, userID string, page TranscriptPage) (TranscriptList, error) {
	ref, err := anySession(caller, id, userID)
	if err != nil {
		return TranscriptList{}, err
	}

	return s.transcript(ctx, ref, page)
}

func (s *Service) transcript(ctx context.Context, ref reference, page TranscriptPage) (TranscriptList, error) {
	found, err := findSession(ctx, s.store.Read(), ref)
	if err != nil {
		return TranscriptList{}, err
	}

	after, err := page.after(found)
	if err != nil {
		return TranscriptList{}, err
	}

	t, partial, err := s.relay.ReadTranscript(ctx, found.transcript(), after, page.Size)
	if err != nil {
		return TranscriptList{}, err
	}

	list := TranscriptList{List: api.List[wire.TranscriptEntry]{Total: int(t.Total)}, Partial: partial}
	if list.Items, err = s.labeled(ctx, found, t.Entries); err != nil {
		return TranscriptList{}, err
	}

	if t.Next > 0 {
		list.Next = cursor(found, t.Next)
	}

	return list, nil
}

// cursor returns the cursor of the page after a seq. It names the transcript: after its
// runtime has lost a conversation, the next transcript has numbers from 1.
func cursor(s session, seq int64) string {
	sum := sha256.Sum256([]byte(s.RuntimeSession))
	return strconv.FormatInt(seq, 10) + "-" + hex.EncodeToString(sum[:4])
}

// after returns the seq of the cursor.
func (p TranscriptPage) after(s session) (int64, error) {
	if p.Next == "" {
		return 0, nil
	}

	digits, _, _ := strings.Cut(p.Next, "-")
	seq, err := strconv.ParseInt(digits, 10, 53)
	if err != nil || seq < 1 || p.Next != cursor(s, seq) {
		return 0, invalidQuery("cursor", "must be the next of a former response, since which the runtime has not lost the conversation")
	}

	return seq, nil
}

// labeled returns entries with the labels of their answers. An entry that names no answer of the
// session, as those of a runtime of a former version, has a label of its page.
func (s *Service) labeled(ctx context.Context, of session, entries []runtimewire.TranscriptEntry) ([]wire.TranscriptEntry, error) {
	var runs []string
	for _, e := range entries {
		if e.RunID != "" && !slices.Contains(runs, e.RunID) {
			runs = append(runs, e.RunID)
		}
	}

	answers, err := labelsOf(ctx, s.store.Read(), of, runs)
	if err != nil {
		return nil, err
	}

	var other *message
	items := make([]wire.TranscriptEntry, 0, len(entries))
	for _, e := range entries {
		item := wire.TranscriptEntry{
			Seq: e.Seq, Time: e.Time, RunID: e.RunID, Type: e.Type, Role: e.Role, Content: e.Content, Event: e.Event, Summary: e.Summary, Kept: e.Kept,
		}
		if generated(e) {
			answer, found := answers[e.RunID]
			if !found && other == nil {
				other = &message{}
				if _, err := s.label(ctx, of.TenantID, other); err != nil {
					return nil, err
				}
			}

			if !found {
				answer = *other
			}

			label(&item, answer)
		}

		items = append(items, item)
	}

	return items, nil
}

// generated reports whether an entry has something from a model: an answer, a result, which may be
// that of a subagent, an event of a subagent, or a summary. Other events have no texts.
func generated(e runtimewire.TranscriptEntry) bool {
	switch e.Type {
	case runvalue.EntryMessage:
		return e.Role == roleAssistant || slices.ContainsFunc(e.Content, func(b runtimewire.TranscriptBlock) bool { return b.Type == "tool_result" })
	case runvalue.EntryCompaction:
		return e.Summary != ""
	}

	var event struct {
		Parent *string `json:"parent_tool_use_id"`
	}
	return jsonlimit.Unmarshal(e.Event, &event) == nil && event.Parent != nil
}

// label adds the label of an answer to an entry, and its notice, which is a block of a message of
// the model, and a paragraph of a summary.
func label(e *wire.TranscriptEntry, answer message) {
	e.AIGC = answer.AIGC
	prepend := answer.NoticeAt == aigc.ModePrepend
	block := runtimewire.TranscriptBlock{Type: "text", Text: answer.Notice}
	switch {
	case answer.Notice == "":
	case e.Type == runvalue.EntryCompaction && prepend:
		e.Summary = relay.Paragraphs(answer.Notice, e.Summary)
	case e.Type == runvalue.EntryCompaction:
		e.Summary = relay.Paragraphs(e.Summary, answer.Notice)
	case e.Role != roleAssistant:
		e.AIGCNotice = answer.Notice
	case prepend:
		e.Content = slices.Insert(e.Content, 0, block)
	default:
		e.Content = append(e.Content, block)
	}
}

// transcriptPage parses page_size and cursor.
func transcriptPage(r *http.Request) (TranscriptPage, error) {
	query, err := queryOf(r)
	if err != nil {
		return TranscriptPage{}, err
	}

	if number, ok := paging.Number(query.Get("page")); !ok || number > 1 {
		return TranscriptPage{}, invalidQuery("page", "must be absent: send the next of a former response as cursor")
	}

	size, ok := paging.Size(query.Get("page_size"))
	if !ok {
		return TranscriptPage{}, invalidQuery("page_size", paging.Want)
	}

	return TranscriptPage{Size: size, Next: query.Get("cursor")}, nil
}

func (s *Service) showTranscript(r *http.Request) (TranscriptList, error) {
	page, err := transcriptPage(r)
	if err != nil {
		return TranscriptList{}, err
	}

	return s.Transcript(r.Context(), api.CallerOf(r), r.PathValue("name"), r.PathValue("id"), page)
}

func (s *Service) showAnyTranscript(r *http.Request) (TranscriptList, error) {
	page, err := transcriptPage(r)
	if err != nil {
		return TranscriptList{}, err
	}

	owner, err := ownerOf(r)
	if err != nil {
		return TranscriptList{}, err
	}

	return s.AnyTranscript(r.Context(), api.CallerOf(r), r.PathValue("id"), owner, page)
}
