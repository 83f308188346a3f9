package chat

import (
	"context"
	"net/http"
	"strconv"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// TranscriptList is a page of what happened in the conversation of a session, as its runtime has
// stored it. It has fewer entries than the size of the page if they are long.
type TranscriptList struct {
	api.List[wire.TranscriptEntry]

	Next string `json:"next,omitempty"` // the cursor of the next page; "" after the last entry
}

// Transcript returns what happened in a session of the caller: every tool call, denial, duration and
// token of the runs. It fails with api.NotFound if the runtime has no transcript, and with
// api.AgentNotDeployed or api.UpstreamFailed if there is no runtime.
func (s *Service) Transcript(ctx context.Context, caller api.Caller, agentName, id string, page MessagePage) (TranscriptList, error) {
	ref, err := s.ownedBy(ctx, caller, agentName, id)
	if err != nil {
		return TranscriptList{}, err
	}
	return s.transcript(ctx, ref, page)
}

// AnyTranscript is Transcript for a session that the caller may see.
func (s *Service) AnyTranscript(ctx context.Context, caller api.Caller, id, userID string, page MessagePage) (TranscriptList, error) {
	ref, err := anySession(caller, id, userID)
	if err != nil {
		return TranscriptList{}, err
	}
	return s.transcript(ctx, ref, page)
}

func (s *Service) transcript(ctx context.Context, ref reference, page MessagePage) (TranscriptList, error) {
	found, err := findSession(ctx, s.store.Read(), ref)
	if err != nil {
		return TranscriptList{}, err
	}
	after := page.After
	if after == 0 {
		after = int64(page.Offset())
	}
	t, err := s.relay.ReadTranscript(ctx, found.transcript(), after, page.Size)
	list := TranscriptList{List: api.List[wire.TranscriptEntry]{Items: t.Entries, Total: int(t.Total)}}
	if t.Next > 0 {
		list.Next = strconv.FormatInt(t.Next, 10)
	}
	return list, err
}

func (s *Service) showTranscript(r *http.Request) (TranscriptList, error) {
	page, err := messagePage(r)
	if err != nil {
		return TranscriptList{}, err
	}
	return s.Transcript(r.Context(), api.CallerOf(r), r.PathValue("name"), r.PathValue("id"), page)
}

func (s *Service) showAnyTranscript(r *http.Request) (TranscriptList, error) {
	page, err := messagePage(r)
	if err != nil {
		return TranscriptList{}, err
	}
	owner, err := ownerOf(r)
	if err != nil {
		return TranscriptList{}, err
	}
	return s.AnyTranscript(r.Context(), api.CallerOf(r), r.PathValue("id"), owner, page)
}
