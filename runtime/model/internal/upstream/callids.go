package upstream

import (
	"crypto/rand"

	"github.com/seed93082962/agenthost/runtime/model"
)

// CallIDs are the ids of the tool calls of a conversation. Results are matched to calls by them, and
// some servers number the calls of each response anew.
type CallIDs struct {
	req  *model.Request
	used map[string]bool // nil until the first call
}

// NewCallIDs returns the ids of the tool calls in the conversation of req.
func NewCallIDs(req *model.Request) CallIDs { return CallIDs{req: req} }

// Unique returns id, or a new id with the prefix if id is empty or used, and marks it as used.
func (c *CallIDs) Unique(id, prefix string) string {
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
	if id == "" || c.used[id] {
		id = prefix + rand.Text()
	}
	c.used[id] = true
	return id
}
