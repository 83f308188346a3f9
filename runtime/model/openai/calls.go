package openai

import (
	"crypto/rand"

	"github.com/seed93082962/agenthost/runtime/model"
)

// calls are the tool calls of one answer. The API sends each with an index, its id and name in
// the first fragment and its input in the others; servers take liberties with all three.
type calls []toolCall

type toolCall struct {
	index int // as upstream counts; -1 where it does not
	id    string
	name  string
	input string // what came before the name
}

// add takes in one fragment.
func (c *calls) add(parts []model.Part, d *toolDelta) []model.Part {
	i := c.find(d)
	if i < 0 {
		*c = append(*c, toolCall{index: -1, id: d.ID})
		i = len(*c) - 1
		if d.Index != nil {
			(*c)[i].index = *d.Index
		}
	}
	call := &(*c)[i]
	if call.id == "" {
		call.id = d.ID
	}
	input := string(d.Function.Arguments)
	if call.name == "" {
		if d.Function.Name == "" {
			call.input += input
			return parts
		}
		call.name = d.Function.Name
		if call.id == "" {
			call.id = "call_" + rand.Text() // results are matched to calls by it
		}
		parts = append(parts, model.Part{Kind: model.KindToolUse, Index: indexTools + i, ID: call.id, Name: call.name})
		input = call.input + input
		call.input = ""
	}
	if input != "" {
		parts = append(parts, model.Part{Kind: model.KindToolInput, Index: indexTools + i, Text: input})
	}
	return parts
}

// find returns the call that a fragment belongs to, -1 for a new one.
func (c *calls) find(d *toolDelta) int {
	for i := len(*c) - 1; i >= 0; i-- {
		call := &(*c)[i]
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
	for i := range *c {
		if (*c)[i].name == "" {
			return false
		}
	}
	return true
}
