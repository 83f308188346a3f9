package relay

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/client"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// readWithin bounds the time to read a page of a transcript.
const readWithin = 15 * time.Second

// ReadTranscript returns the entries of a transcript after a seq. It fails with wire.NotFound if
// the runtime does not have it. If several replicas have a part of the conversation, the transcript
// is that of the replica with the most entries, and partial. Its memory is that of the answers of
// the tenant, until ctx ends.
func (r *Relay) ReadTranscript(ctx context.Context, t Transcript, after int64, limit int) (runtimewire.Transcript, bool, error) {
	if t.RuntimeSession == "" {
		return runtimewire.Transcript{}, false, noTranscript()
	}

	memory := &account{budget: r.memory, holder: t.TenantID}
	context.AfterFunc(ctx, memory.release)
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	all, err := r.replicasOf(ctx, t.TenantID, t.AgentName, memory)
	if err != nil {
		return runtimewire.Transcript{}, false, err
	}

	parts := 0
	var found runtimewire.Transcript
	for _, runtime := range all {
		part, err := runtime.Transcript(ctx, t.RuntimeSession, after, limit)
		if failure, ok := errors.AsType[*client.Error](err); ok && (failure.Status == http.StatusNotFound || failure.Status == http.StatusMethodNotAllowed) {
			continue // a runtime of a former version has no such route
		}

		if errors.Is(err, errMemory) {
			return found, false, &wire.Error{Code: wire.Unavailable, Message: "The transcript needs too much memory: try again, with a lower page_size.", Cause: err}
		}

		if err != nil {
			return found, false, unreachable(err)
		}

		part.Entries = part.Entries[:min(len(part.Entries), limit)]
		if parts++; parts == 1 || part.Total > found.Total {
			found = part
		}
	}

	if parts == 0 {
		return found, false, noTranscript()
	}

	return found, parts > 1, nil
}

func unreachable(err error) error {
	const message = "The runtime of the agent cannot be reached: the hub has the messages of the chat."
	return &wire.Error{Code: code.UpstreamFailed, Message: message, Cause: err}
}

func noTranscript() error {
	return wire.NotFound.New("The runtime of the agent has no transcript of this chat: the hub has its messages.")
}

// replicasOf returns the clients of all processes of an agent's runtime that may have one of its
// conversations.
func (r *Relay) replicasOf(ctx context.Context, tenantID, agentName string, memory *account) ([]*client.Client, error) {
	endpoint, err := r.cfg.Deployments.Endpoint(ctx, tenantID, agentName)
	if err != nil {
		return nil, err
	}

	urls, err := r.cfg.Deployments.Replicas(ctx, endpoint.Key)
	if err != nil {
		return nil, unreachable(err)
	}

	if len(urls) == 0 {
		urls = []string{endpoint.URL}
	}

	reading := &http.Client{Transport: reserving{r.http.Transport, memory}}
	var all []*client.Client
	for _, url := range urls {
		one, err := client.New(client.Config{BaseURL: url, APIKey: string(endpoint.APIKey), HTTPClient: reading})
		if err != nil {
			return nil, wrongAddress(err)
		}

		all = append(all, one)
	}

	return all, nil
}

// transcriptMemory is the memory of a byte of a transcript: of the response of the runtime, of what
// is decoded of it, and of the response of the hub.
const transcriptMemory = 4

// reserving reserves memory for the bodies of responses, which are small or transcripts.
type reserving struct {
	http.RoundTripper

	memory *account
}

// RoundTrip implements http.RoundTripper.
func (t reserving) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.RoundTripper.RoundTrip(req)
	if err == nil {
		res.Body = reservingBody{res.Body, t.memory}
	}

	return res, err
}

type reservingBody struct {
	io.ReadCloser

	memory *account
}

// Read implements io.Reader.
func (b reservingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if refused := b.memory.reserve(transcriptMemory * n); refused != nil {
		return 0, refused
	}

	return n, err
}
