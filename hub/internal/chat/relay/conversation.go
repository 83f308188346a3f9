package relay

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Conversation identifies the turns of a client that carries its conversation: the SHA-256 of the
// last one with those before it. "" has none.
type Conversation string

// Add returns the conversation with further turns. White space at the ends of texts is ignored,
// because clients remove it.
func (c Conversation) Add(turns ...wire.Turn) Conversation {
	for _, turn := range turns {
		text := strings.TrimSpace(Clean(turn.Content))
		h := sha256.New()
		fmt.Fprintf(h, "%s\n%s\n%d\n%s", c, turn.Role, len(text), text)
		if len(turn.Parts) > 0 {
			_ = json.NewEncoder(h).Encode(turn.Parts) // they were JSON
		}

		c = Conversation(base64.RawURLEncoding.EncodeToString(h.Sum(nil)))
	}

	return c
}

// conversation returns what the client has of the session after an answer that is complete: one
// with the answer, or for an answer that waits, one up to the message. The results that the client
// sends then have a turn of the assistant with the calls before them.
func (a *Answer) conversation() Conversation {
	c := a.run.Conversation
	switch {
	case c == "", a.end.Status == StatusWaiting:
		return c
	case a.end.Status != StatusCompleted:
		return ""
	}

	if output := StructuredOf(json.RawMessage(a.final.blocks)); output != nil { // the client has no other text of the run
		return c.Add(wire.Turn{Role: runvalue.RoleAssistant, Content: string(output)})
	}

	text := a.final.text
	if a.resumed != nil {
		text = strings.TrimPrefix(text, a.resumed.Text)
	}

	switch {
	case !Generated(a.final.text, a.final.blocks):
	case a.run.NoticeAt == aigc.ModeAppend:
		text = Paragraphs(text, a.run.Notice)
	case a.resumed == nil:
		text = Paragraphs(a.run.Notice, text)
	}

	return c.Add(wire.Turn{Role: runvalue.RoleAssistant, Content: text})
}
