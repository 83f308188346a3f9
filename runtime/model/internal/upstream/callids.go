package upstream

import (
	"crypto/rand"

	"github.com/seed93082962/agenthost/runtime/model"
)

// CallIDs are the ids of the tool calls of a conversation. Results are matched to calls by them,
// and some servers number the calls of each response anew.
type CallIDs struct {
	req  *model.Request
	used map[string]bool // nil until the first call
}

// NewCallIDs returns the ids of the tool calls in the conversation of req.
func NewCallIDs(req *model.Request) CallIDs { return CallIDs{req: req} }

// idLength is the length of new ids: Mistral accepts only ids of nine letters and digits.
const idLength = 9

// Unique returns id, or a new id if id is empty or used, and marks it as used.
func (c *CallIDs) Unique(id string) string {
	if c.used == nil {
		c.used = map[string]bool{}
		if c.req != nil {
			for _, m := range c.req.Messages {
				for _, call := range m.ToolUses() {
					c.used[call.ID] = true
				}
			}
		}
	}
	for id == "" || c.used[id] {
		id = rand.Text()[:idLength]
	}
	c.used[id] = true
	return id
}
