package openai

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
)

// calls are the tool calls of one response. The API sends each call with an index, its id and name
// in the first fragment and its input in the others. Servers deviate in all three.
type calls struct {
	ids  upstream.CallIDs
	list []toolCall
	held int // bytes of fragments that arrived before the name of their call, and of unknown fields
}

type toolCall struct {
	index int // as upstream sent it; -1 if it sent none
	sent  string
	id    string // sent, or another id if that is empty or used
	name  string
	early []byte // input that arrived before the name
	input inputState
	extra map[string]json.RawMessage
}

// maxHeld bounds the memory of calls that have not produced a part yet, and the work for their
// unknown fields.
const maxHeld = 4 << 20

// add appends the parts of one fragment.
func (c *calls) add(parts []model.Part, joiner *upstream.Joiner, d *toolDelta) ([]model.Part, error) {
	i := c.find(d)
	if i < 0 && d.empty() {
		return parts, nil // some servers send an empty call with every chunk
	}
	if i < 0 {
		if len(c.list) == model.MaxResponseBlocks {
			return parts, &model.Error{Code: model.CodeServer, Message: "upstream sent too many tool calls"}
		}
		c.list = append(c.list, toolCall{index: -1})
		i = len(c.list) - 1
		if d.Index != nil {
			c.list[i].index = *d.Index
		}
	}
	call := &c.list[i]
	if call.sent == "" {
		call.sent = d.ID
	}
	fresh := c.mergeExtra(call, d.Extra)
	input := string(d.Function.Arguments)
	call.input.add(input)
	if call.name == "" {
		if d.Function.Name == "" {
			if c.held += len(d.ID) + len(input); c.held > maxHeld {
				return parts, &model.Error{Code: model.CodeServer, Message: "upstream sent too much of tool calls without a name"}
			}
			call.early = append(call.early, input...)
			return parts, nil
		}
		call.name = d.Function.Name
		call.id = c.ids.Unique(call.sent)
		parts = append(joiner.Flush(parts),
			model.Part{Kind: model.KindToolUse, Index: indexTools + i, ID: call.id, Name: call.name})
		input = string(call.early) + input
		call.early = nil
		fresh = len(call.extra) > 0
	}
	if fresh {
		text, err := json.Marshal(call.extra)
		if err != nil {
			return parts, err
		}
		c.held += len(text) // each part has all fields again
		parts = append(parts, model.Part{Kind: model.KindToolExtra, Index: indexTools + i, Text: string(text)})
	}
	if c.held > maxHeld {
		return parts, &model.Error{Code: model.CodeServer, Message: "upstream sent too much of unknown fields of tool calls"}
	}
	return joiner.Append(parts, model.KindToolInput, indexTools+i, input), nil
}

// mergeExtra adds unknown fields to a call. It reports whether any of them is new or has changed:
// some servers repeat them in every fragment.
func (c *calls) mergeExtra(call *toolCall, extra map[string]json.RawMessage) (changed bool) {
	for name, value := range extra {
		if before, ok := call.extra[name]; ok && bytes.Equal(before, value) {
			continue
		}
		if call.extra == nil {
			call.extra = map[string]json.RawMessage{}
		}
		call.extra[name] = value
		c.held += len(name) + len(value)
		changed = true
	}
	return changed
}

// find returns the call that a fragment belongs to, -1 for a new one.
func (c *calls) find(d *toolDelta) int {
	if d.ID != "" && d.Function.Name == "" {
		for i, call := range slices.Backward(c.list) {
			if call.sent == d.ID && (d.Index == nil || *d.Index == call.index) {
				return i
			}
		}
	}
	for i, call := range slices.Backward(c.list) {
		counted := d.Index != nil && call.index >= 0
		if counted && *d.Index != call.index {
			continue
		}
		if d.Function.Name == "" || call.name == "" {
			return i // a continuation: some servers make up a new id for every fragment
		}
		// A second name begins another call, unless it repeats that of a call whose input is not
		// complete: some servers number every call 0, others repeat id and name in every fragment.
		repeats := d.Function.Name == call.name && (d.ID == call.sent || d.ID == "" && counted)
		if repeats && (!call.input.complete() || d.Function.Arguments == "") {
			return i
		}
	}
	return -1
}

// named reports whether every call has a name.
func (c *calls) named() bool {
	return !slices.ContainsFunc(c.list, func(call toolCall) bool { return call.name == "" })
}

// complete reports whether every call has a name and a complete input.
func (c *calls) complete() bool {
	return c.named() && !slices.ContainsFunc(c.list, func(call toolCall) bool { return !call.input.complete() })
}

// inputState tracks the nesting of a tool input to determine whether the JSON object is complete.
type inputState struct {
	depth   int
	begun   bool
	quoted  bool
	escaped bool
}

func (s *inputState) complete() bool { return s.begun && s.depth == 0 }

func (s *inputState) add(fragment string) {
	for i := range len(fragment) {
		c := fragment[i]
		switch {
		case s.escaped:
			s.escaped = false
		case s.quoted:
			s.quoted, s.escaped = c != '"', c == '\\'
		case c == '"':
			s.quoted = true
		case bytes.IndexByte([]byte("{["), c) >= 0:
			s.depth++
			s.begun = true
		case bytes.IndexByte([]byte("}]"), c) >= 0:
			s.depth = max(s.depth-1, 0)
		}
	}
}
