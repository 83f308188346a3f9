package upstream

import (
	"crypto/rand"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/internal/toolschema"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
)

// Joiner completes characters that upstream splits between two increments of one block: between the
// bytes of a UTF-8 sequence, or between the two surrogates of a JSON escape. Its zero value is
// ready for use.
type Joiner struct {
	kind  model.PartKind
	index int
	rest  string // an incomplete character, at most 3 bytes
}

// Append appends a part with the complete characters of an increment, if there are any. An
// incomplete character at the end is buffered for the next increment of the same block.
func (j *Joiner) Append(parts []model.Part, kind model.PartKind, index int, text string) []model.Part {
	if text == "" {
		return parts
	}

	if j.rest != "" {
		if j.kind != kind || j.index != index {
			parts = j.Flush(parts)
		} else {
			text = j.rest + text
			j.rest = ""
		}
	}

	if !utf8.ValidString(text) {
		n := len(text) - incomplete(text)
		j.kind, j.index, j.rest = kind, index, strings.Clone(text[n:])
		text = valid(text[:n])
	}

	if text == "" {
		return parts
	}

	return append(parts, model.Part{Kind: kind, Index: index, Text: text})
}

// Flush appends U+FFFD for an incomplete character whose rest did not arrive.
func (j *Joiner) Flush(parts []model.Part) []model.Part {
	if j.rest == "" {
		return parts
	}

	j.rest = ""
	return append(parts, model.Part{Kind: j.kind, Index: j.index, Text: "\uFFFD"})
}

// incomplete returns the length of the incomplete character at the end of text.
func incomplete(text string) int {
	if n := len(text); n >= 3 {
		if r, ok := surrogate(text[n-3:]); ok && r < 0xDC00 {
			return 3 // the first half of a pair
		}
	}

	for n := 1; n <= 3 && n <= len(text); n++ {
		tail := text[len(text)-n:]
		if utf8.RuneStart(tail[0]) {
			if tail[0] >= utf8.RuneSelf && !utf8.FullRuneInString(tail) {
				return n
			}

			return 0
		}
	}

	return 0
}

// surrogate decodes the three bytes that a jsonscan.Fragment has for a surrogate.
func surrogate(text string) (rune, bool) {
	if len(text) < 3 || text[0] != 0xED || text[1] < 0xA0 || text[1] > 0xBF || text[2]&0xC0 != 0x80 {
		return 0, false
	}

	return 0xD000 | rune(text[1]&0x3F)<<6 | rune(text[2]&0x3F), true
}

// valid joins pairs of surrogates and replaces all other invalid UTF-8 with U+FFFD.
func valid(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		if high, ok := surrogate(text); ok {
			text = text[3:]
			low, _ := surrogate(text)
			r := utf16.DecodeRune(high, low)
			if r != utf8.RuneError {
				text = text[3:]
			}

			out.WriteRune(r)
			continue
		}

		r, size := utf8.DecodeRuneInString(text)
		out.WriteRune(r)
		text = text[size:]
	}

	return out.String()
}

// inputs restores the names of properties in the inputs of tools whose schemas have other names
// upstream. Such an input is held back until the response is complete.
type inputs struct {
	renamed map[string]*toolschema.Fitted // by the name of the tool
	open    []*heldInput
	size    int // bytes that are held
}

type heldInput struct {
	index  int
	schema *toolschema.Fitted
	text   []byte
}

// restore takes the increments of held inputs out of the parts from position n, and puts the inputs
// in front of the stop.
func (in *inputs) restore(parts []model.Part, n int, reserve func(int) error) ([]model.Part, error) {
	if len(in.renamed) == 0 {
		return parts, nil
	}

	added := slices.Clone(parts[n:])
	parts = parts[:n]
	for _, p := range added {
		switch p.Kind {
		case model.KindToolUse:
			if schema := in.renamed[p.Name]; schema != nil {
				in.open = append(in.open, &heldInput{index: p.Index, schema: schema})
			}
		case model.KindToolInput:
			i := slices.IndexFunc(in.open, func(h *heldInput) bool { return h.index == p.Index })
			if i < 0 {
				break
			}

			if in.size+len(p.Text) > collect.MaxTotal {
				return parts, &model.Error{Code: runvalue.ErrorTypeServer, Message: "upstream sent too much input of tool calls"}
			}

			if reserve != nil {
				if err := reserve(len(p.Text)); err != nil {
					return parts, err
				}
			}

			in.size += len(p.Text)
			in.open[i].text = append(in.open[i].text, p.Text...)
			continue
		case model.KindStop:
			for _, h := range in.open {
				if len(h.text) > 0 {
					parts = append(parts, model.Part{Kind: model.KindToolInput, Index: h.index, Text: h.schema.Input(string(h.text))})
				}
			}
		}

		parts = append(parts, p)
	}

	return parts, nil
}

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
