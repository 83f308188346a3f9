package engine

import (
	"crypto/sha256"
	"encoding/base32"
	"regexp"

	"github.com/seed93082962/agenthost/runtime/model"
)

// portable returns messages in a form that the model of origin accepts. Upstreams reject thinking
// and opaque fields that another model produced, and Mistral rejects the ids of tool calls that
// most others produce. Messages of an unknown origin are unchanged.
func portable(messages []model.Message, origin string) []model.Message {
	out := make([]model.Message, 0, len(messages))
	var foreign map[string]bool // ids of the calls of the previous message
	for _, m := range messages {
		switch {
		case m.Origin != "" && m.Origin != origin:
			m, foreign = withoutThinking(m)
		case foreign != nil:
			m.Content = withCallIDs(m.Content, foreign)
			foreign = nil
		}
		if m.Role != model.RoleAssistant || m.HasOutput() {
			out = append(out, m)
		}
	}
	return out
}

// withoutThinking returns the texts and the tool calls of a message without opaque fields, and the
// former ids of the calls.
func withoutThinking(m model.Message) (model.Message, map[string]bool) {
	calls := map[string]bool{}
	var content []model.Block
	for _, b := range m.Content {
		switch b.Type {
		case model.BlockThinking, model.BlockRedacted:
			continue
		case model.BlockToolUse:
			calls[b.ID] = true
			b.ID, b.Extra = portableID(b.ID), nil
		}
		content = append(content, b)
	}
	m.Content = content
	return m, calls
}

// withCallIDs returns the content of a message in which results of the calls have their portable
// ids.
func withCallIDs(content []model.Block, calls map[string]bool) []model.Block {
	out := make([]model.Block, len(content))
	for i, b := range content {
		if b.Type == model.BlockToolResult && calls[b.ID] {
			b.ID = portableID(b.ID)
		}
		out[i] = b
	}
	return out
}

var portableForm = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// portableID returns the id of a tool call in the form that Mistral requires, which is the
// strictest. The same id always has the same result, so that prompt caches match.
func portableID(id string) string {
	if portableForm.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return base32.StdEncoding.EncodeToString(sum[:])[:9]
}
