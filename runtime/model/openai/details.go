package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
)

// maxDetails bounds the reasoning_details of one response, in bytes.
const maxDetails = 8 << 20

// details collects the reasoning_details of one response (OpenRouter). The server streams each
// entry in fragments: fragments of the same type and index belong to one entry. The entries must be
// sent back complete and in their order.
type details struct {
	entries []*entry
	size    int
}

// entry is one entry. Its texts grow by every fragment, so they are encoded only once, at the end.
type entry struct {
	fields map[string]json.RawMessage
	texts  map[string]*strings.Builder // text, summary and data, where they are strings
}

func (d *details) add(fragments []json.RawMessage) error {
	for _, raw := range fragments {
		if d.size += len(raw); d.size > maxDetails || len(d.entries) == model.MaxResponseBlocks {
			return &model.Error{Code: model.CodeServer, Message: "upstream sent too many reasoning details"}
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil || fields == nil {
			continue // not an object: no server is known to send one
		}
		n := len(d.entries)
		if n == 0 || !sameEntry(d.entries[n-1].fields, fields) {
			d.entries = append(d.entries, &entry{map[string]json.RawMessage{}, map[string]*strings.Builder{}})
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
func (e *entry) merge(fragment map[string]json.RawMessage) {
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

// json returns the array of all entries, "" if there are none.
func (d *details) json() string {
	if len(d.entries) == 0 {
		return ""
	}
	all := make([]map[string]json.RawMessage, len(d.entries))
	for i, e := range d.entries {
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
