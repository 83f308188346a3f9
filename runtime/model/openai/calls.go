package openai

import (
	"crypto/rand"

	"github.com/seed93082962/agenthost/runtime/model"
)

// calls are the tool calls of one answer. The API sends each with an index, its id and name in
// the first fragment and its input in the others; servers take liberties with all three.
type calls struct {
	list []toolCall
	held int // bytes of fragments that came before their call's name
}

type toolCall struct {
	index int // as upstream counts; -1 where it does not
	id    string
	name  string
	input []byte // what came before the name
}

// maxHeld bounds what is kept of calls without a name: it makes no part yet that anyone counts.
const maxHeld = 1 << 20

// add takes in one fragment.
func (c *calls) add(parts []model.Part, d *toolDelta) ([]model.Part, error) {
	i := c.find(d)
	if i < 0 {
		if len(c.list) == model.MaxAnswerBlocks {
			return parts, &model.Error{Code: model.CodeServer, Message: "upstream sent too many tool calls"}
		}
		c.list = append(c.list, toolCall{index: -1, id: d.ID})
		i = len(c.list) - 1
		if d.Index != nil {
			c.list[i].index = *d.Index
		}
	}
	call := &c.list[i]
	if call.id == "" {
		call.id = d.ID
	}
	input := string(d.Function.Arguments)
	if call.name == "" {
		if d.Function.Name == "" {
			if c.held += len(d.ID) + len(input); c.held > maxHeld {
				return parts, &model.Error{Code: model.CodeServer, Message: "upstream sent too much of tool calls without a name"}
			}
			call.input = append(call.input, input...)
			return parts, nil
		}
		call.name = d.Function.Name
		if call.id == "" {
			call.id = "call_" + rand.Text() // results are matched to calls by it
		}
		parts = append(parts, model.Part{Kind: model.KindToolUse, Index: indexTools + i, ID: call.id, Name: call.name})
		input = string(call.input) + input
		call.input = nil
	}
	if input != "" {
		parts = append(parts, model.Part{Kind: model.KindToolInput, Index: indexTools + i, Text: input})
	}
	return parts, nil
}

// find returns the call that a fragment belongs to, -1 for a new one.
func (c *calls) find(d *toolDelta) int {
	for i := len(c.list) - 1; i >= 0; i-- {
		call := &c.list[i]
		counted := d.Index != nil && call.index >= 0
		if counted && *d.Index != call.index {
			continue
		}
		if d.ID != "" && d.ID == call.id {
			return i
		}
		// A second name begins another call, unless index and no other id say that it is a repeat:
		// there are servers that count every call as number 0, and others that make up a new id
		// for every fragment.
		if d.Function.Name != "" && call.name != "" && (d.ID != "" || !counted) {
			continue
		}
		return i
	}
	return -1
}

// named reports whether every call has a name.
func (c *calls) named() bool {
	for i := range c.list {
		if c.list[i].name == "" {
			return false
		}
	}
	return true
}
