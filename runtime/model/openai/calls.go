package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
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
	index count // as upstream sent it; -1 if it sent none
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
		if len(c.list) == collect.MaxBlocks {
			return parts, &model.Error{Code: runvalue.ErrorTypeServer, Message: "upstream sent too many tool calls"}
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
				return parts, &model.Error{Code: runvalue.ErrorTypeServer, Message: "upstream sent too much of tool calls without a name"}
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
		return parts, &model.Error{Code: runvalue.ErrorTypeServer, Message: "upstream sent too much of unknown fields of tool calls"}
	}

	return joiner.Append(parts, model.KindToolInput, indexTools+i, input), nil
}

// mergeExtra adds unknown fields to a call. It reports whether any of them is new or has changed:
// some servers repeat them in every fragment.
func (c *calls) mergeExtra(call *toolCall, extra map[string]json.RawMessage) bool {
	var changed bool
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

// maxDetails bounds the reasoning_details of one response, in bytes.
const maxDetails = 8 << 20

// details collects the reasoning_details of one response (OpenRouter). The server streams each
// entry in fragments: fragments of the same type and index belong to one entry. The entries must be
// sent back complete and in their order.
type details struct {
	entries []*reasoningDetail
	size    int
}

// reasoningDetail is one of the details. Its texts grow by every fragment, so they are encoded only
// once, at the end.
type reasoningDetail struct {
	fields map[string]json.RawMessage
	texts  map[string]*strings.Builder // text, summary and data, where they are strings
}

func (d *details) add(fragments []json.RawMessage) error {
	for _, raw := range fragments {
		if d.size += len(raw); d.size > maxDetails || len(d.entries) == collect.MaxBlocks {
			return &model.Error{Code: runvalue.ErrorTypeServer, Message: "upstream sent too many reasoning details"}
		}

		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil || fields == nil {
			continue // not an object: no server is known to send one
		}

		n := len(d.entries)
		if n == 0 || !sameEntry(d.entries[n-1].fields, fields) {
			d.entries = append(d.entries, &reasoningDetail{map[string]json.RawMessage{}, map[string]*strings.Builder{}})
			n++
		}

		d.entries[n-1].merge(fields)
	}

	return nil
}

func sameEntry(a, b map[string]json.RawMessage) bool {
	return bytes.Equal(a["type"], b["type"]) && bytes.Equal(a["index"], b["index"]) && len(b["index"]) > 0
}

// merge appends the texts of a fragment. Of other fields the latest value that is not null counts.
func (e *reasoningDetail) merge(fragment map[string]json.RawMessage) {
	for name, value := range fragment {
		if _, ok := e.fields[name]; ok && string(value) == "null" {
			continue
		}

		var text string
		switch name {
		case "text", "summary", "data":
			if value[0] == '"' && json.Unmarshal(value, &text) == nil {
				if e.texts[name] == nil {
					e.texts[name] = &strings.Builder{}
				}

				e.texts[name].WriteString(text)
				value = nil // encoded at the end
			} else {
				delete(e.texts, name)
			}
		}

		e.fields[name] = value
	}
}

// json returns the array of all entries, "" if there are none. An entry with the id of a call that
// has another id since has that one.
func (d *details) json(list []toolCall) string {
	if len(d.entries) == 0 {
		return ""
	}

	all := make([]map[string]json.RawMessage, len(d.entries))
	ids := map[string][]string{} // the ids of the calls, by the ids that upstream sent
	for _, call := range list {
		ids[call.sent] = append(ids[call.sent], call.id)
	}

	for i, e := range d.entries {
		var sent string
		if json.Unmarshal(e.fields["id"], &sent) == nil && sent != "" && len(ids[sent]) > 0 {
			own := ids[sent][0]
			if len(ids[sent]) > 1 { // several calls with one id: their entries have the same order
				ids[sent] = ids[sent][1:]
			}

			if encoded, err := json.Marshal(own); err == nil && own != sent {
				e.fields["id"] = encoded
			}
		}

		for name, text := range e.texts {
			encoded, err := json.Marshal(text.String())
			if err != nil {
				return ""
			}

			e.fields[name] = encoded
		}

		all[i] = e.fields
	}

	data, err := json.Marshal(all)
	if err != nil {
		return ""
	}

	return string(data)
}
