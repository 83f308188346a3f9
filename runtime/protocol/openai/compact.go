package openai

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// compaction is the body of POST /responses/compact.
type compaction struct {
	ID        string         `json:"id"`
	Object    string         `json:"object"` // response.compaction
	CreatedAt int64          `json:"created_at"`
	Output    []item         `json:"output"`
	Usage     *responseUsage `json:"usage"`
}

// Texts of a compaction in a conversation.
const (
	summaryHeading = "Summary of the conversation before this message:\n\n"
	summaryRequest = "Write a summary of this conversation, from which it will be continued without its messages: " +
		"what the user wants, what was decided and done, results of tools, names, numbers and open questions. " +
		"Call no tools. Respond with the summary only."
)

// compactResponse handles POST /responses/compact. The agent summarizes the conversation in a run
// of one turn, which is not stored.
func (s *server) compactResponse(w http.ResponseWriter, r *http.Request, ps httprouter.Params) error {
	if ps.ByName("response") != "compact" {
		return httpapi.ErrMethodNotAllowed
	}

	memory := &httpapi.Memory{Reserve: s.cfg.Host.Reserve}
	defer memory.Release()
	a, err := s.readResponse(w, r, memory)
	if err != nil {
		return err
	}

	a.stream = false
	before, err := a.previous(r.Context())
	if err != nil {
		return err
	}

	if len(before)+len(a.input.talk) == 0 {
		return invalid("input", "has no messages")
	}

	a.input.talk.add(runvalue.RoleUser, summaryRequest)
	turns, stored := 1, false
	run := wire.RunRequest{Stream: wire.StreamOff, MaxTurns: &turns, Store: &stored}
	if err := a.start(r.Context(), run, before); err != nil {
		return err
	}

	text := a.output.said()
	if text == "" {
		return &failure{status: http.StatusBadGateway, message: "the agent returned no summary", ran: true}
	}

	return httpapi.WriteJSON(w, http.StatusOK, compaction{
		ID: a.id().String(), Object: "response.compaction", CreatedAt: a.created, Usage: responseUsageOf(a.spent.Usage),
		Output: []item{{Type: typeCompaction, ID: a.output.nextID("cmp_"), EncryptedContent: base64.RawURLEncoding.EncodeToString([]byte(text))}},
	})
}

// previous returns the conversation up to the previous response of a request.
func (a *responseRun) previous(ctx context.Context) (conversation, error) {
	if a.req.PreviousResponseID == "" {
		return nil, nil
	}

	id, ok := parseResponseID(a.req.PreviousResponseID)
	if !ok {
		return nil, a.noPrevious()
	}

	return a.conversationUntil(ctx, id)
}

// parseCompaction returns the summary of an item. It is not secret: the client has the
// conversation.
func parseCompaction(content string) (string, error) {
	text, err := base64.RawURLEncoding.DecodeString(content)
	if err != nil || !utf8.Valid(text) || strings.TrimSpace(string(text)) == "" {
		return "", errors.New("has an encrypted_content that is not of this server")
	}

	return string(text), nil
}
