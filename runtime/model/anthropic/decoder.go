package anthropic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
	"github.com/seed93082962/agenthost/sse"
)

// decoder decodes the events of one response into parts.
type decoder struct {
	ids     upstream.CallIDs
	name    upstream.Name
	usage   model.Usage
	stop    string
	joiner  upstream.Joiner
	blocks  []openBlock     // part.Index is the position in it: some servers use an index twice
	tools   bool            // the response has a tool call
	orphan  bool            // an input came without its call
	whole   json.RawMessage // input that came with the start of the open tool call
	wholeAt int             // position of that call
}

// openBlock is one content block of the response.
type openBlock struct {
	index   int  // as upstream sent it
	call    bool // a tool call
	unknown bool // is left out, such as that of a server tool
}

// Decode implements upstream.Decoder.
func (d *decoder) Decode(parts []model.Part, ev sse.Event) ([]model.Part, error) {
	if inc, ok := scanIncrement(ev.Data); ok {
		return d.appendIncrement(parts, inc), nil
	}

	return d.decodeAny(parts, ev)
}

// decodeAny is Decode for every event that the scanner leaves to encoding/json.
func (d *decoder) decodeAny(parts []model.Part, ev sse.Event) ([]model.Part, error) {
	if len(bytes.TrimSpace(ev.Data)) == 0 {
		return parts, nil // a keepalive of some servers
	}

	if fault := upstream.FaultIn(ev); fault != nil {
		return parts, fault
	}

	var e event
	if err := json.Unmarshal(ev.Data, &e); err != nil && !ignorable(ev, &e, err) {
		return parts, &model.Error{Code: runvalue.ErrorTypeServer, Message: "upstream sent an event that cannot be read", Err: err}
	}

	return d.appendEvent(parts, &e)
}

func (d *decoder) appendEvent(parts []model.Part, e *event) ([]model.Part, error) {
	switch e.Type {
	case "message_start":
		d.stop = e.Message.StopReason
		d.name.Set(e.Message.Model)
		parts, err := d.appendContent(parts, e.Message.Content)
		return d.appendUsage(parts, e.Message.Usage, d.stop != "" || len(d.blocks) > 0), err
	case "content_block_start":
		return d.startBlock(parts, int(e.Index), &e.ContentBlock)
	case "content_block_delta":
		return d.appendDelta(parts, int(e.Index), &e.Delta), nil
	case "content_block_stop":
		return d.endBlock(parts), nil
	case "message_delta":
		d.stop = cmp.Or(e.Delta.StopReason, d.stop)
		return d.appendUsage(parts, e.Usage, true), nil
	case "message_stop":
		if fault := upstream.Interrupted(d.stop); fault != nil {
			return parts, fault
		}

		stop := cmp.Or(d.stop, model.StopEndTurn)
		if d.stop == "" && d.tools {
			stop = model.StopToolUse
		}

		if d.orphan {
			return parts, &model.Error{Code: runvalue.ErrorTypeServer, Message: "upstream sent the input of a tool call that it did not start"}
		}

		return append(d.endBlock(parts), model.Part{Kind: model.KindStop, StopReason: stop}), nil
	}

	return parts, nil // ping, and later additions to the API, which asks clients to ignore them
}

// Finished implements upstream.Decoder: message_stop always follows.
func (d *decoder) Finished() bool { return false }

// End implements upstream.Decoder: only message_stop completes a response.
func (d *decoder) End(parts []model.Part) []model.Part { return parts }

// ignorable reports whether an event that cannot be decoded can be ignored, because it is a later
// addition to the API or need not be JSON. Any other such event is damaged. If a field has an
// unexpected type, all other fields are set in e.
func ignorable(ev sse.Event, e *event, err error) bool {
	if shape := new(json.UnmarshalTypeError); errors.As(err, &shape) {
		switch e.Type {
		case "content_block_start":
			return !slices.Contains(known, e.ContentBlock.Type)
		case "content_block_delta":
			return !slices.Contains(known, e.Delta.Type)
		}

		return !slices.Contains(known, e.Type)
	}

	if ev.Type == "" {
		return string(bytes.TrimSpace(ev.Data)) == "[DONE]" // some gateways end every stream with it
	}

	return !slices.Contains(known, ev.Type)
}

// appendContent appends the blocks with which a message starts, or the text that takes their place.
func (d *decoder) appendContent(parts []model.Part, content json.RawMessage) ([]model.Part, error) {
	var blocks []contentBlock
	var whole text
	if json.Unmarshal(content, &blocks) != nil && json.Unmarshal(content, &whole) == nil {
		blocks = []contentBlock{{Type: "text", Text: whole}}
	}

	for i := range blocks {
		var err error
		if parts, err = d.startBlock(parts, i, &blocks[i]); err != nil {
			return parts, err
		}
	}

	return d.endBlock(parts), nil
}

func (d *decoder) startBlock(parts []model.Part, index int, b *contentBlock) ([]model.Part, error) {
	if len(d.blocks) == collect.MaxBlocks {
		return parts, &model.Error{Code: runvalue.ErrorTypeServer, Message: "upstream sent too many content blocks"}
	}

	parts = d.endBlock(parts)
	d.blocks = append(d.blocks, openBlock{index: index, call: b.Type == "tool_use", unknown: !slices.Contains(known, b.Type)})
	switch b.Type {
	case "text":
		parts = d.appendIncrement(parts, increment{model.KindText, index, string(b.Text)})
	case "thinking":
		parts = d.appendIncrement(parts, increment{model.KindThinking, index, string(b.Thinking)})
		parts = d.appendIncrement(parts, increment{model.KindSignature, index, b.Signature})
	case "redacted_thinking":
		parts = d.appendIncrement(parts, increment{model.KindRedacted, index, b.Data})
	case "tool_use":
		if b.Name == "" {
			return parts, &model.Error{Code: runvalue.ErrorTypeServer, Message: "upstream sent a tool call without a name"}
		}

		d.tools = true
		at := len(d.blocks) - 1
		parts = append(parts, model.Part{Kind: model.KindToolUse, Index: at, ID: d.ids.Unique(b.ID), Name: b.Name})
		// The API sends {} here and the input in deltas; some servers send the complete input here.
		// endBlock decides which of the two it is.
		d.whole, d.wholeAt = b.Input, at
	}

	return parts, nil
}

func (d *decoder) appendDelta(parts []model.Part, index int, b *delta) []model.Part {
	switch b.Type {
	case "text_delta":
		return d.appendIncrement(parts, increment{model.KindText, index, string(b.Text)})
	case "thinking_delta":
		return d.appendIncrement(parts, increment{model.KindThinking, index, string(b.Thinking)})
	case "signature_delta":
		return d.appendIncrement(parts, increment{model.KindSignature, index, b.Signature})
	case "input_json_delta":
		return d.appendIncrement(parts, increment{model.KindToolInput, index, string(b.PartialJSON)})
	}

	return parts
}

func (d *decoder) appendIncrement(parts []model.Part, inc increment) []model.Part {
	if inc.text == "" {
		return parts
	}

	at := d.at(inc.index)
	switch input := inc.kind == model.KindToolInput; {
	case input && (at < 0 || !d.blocks[at].call):
		d.orphan = d.orphan || at < 0 || !d.blocks[at].unknown
		return parts
	case at < 0: // some servers do not start blocks of text
		at = len(d.blocks)
		d.blocks = append(d.blocks, openBlock{index: inc.index})
	case d.blocks[at].unknown:
		return parts
	case input && d.wholeAt == at:
		d.whole = nil
	}

	return d.joiner.Append(parts, inc.kind, at, inc.text)
}

// at returns the position of the newest block with an index, -1 for none.
func (d *decoder) at(index int) int {
	for i, b := range slices.Backward(d.blocks) {
		if b.index == index {
			return i
		}
	}

	return -1
}

// endBlock appends the input of a tool call that came with its start and not in deltas, as an
// object or as a string with its JSON. Not every server ends a block before the next one.
func (d *decoder) endBlock(parts []model.Part) []model.Part {
	parts = d.joiner.Flush(parts)
	var input text
	if d.whole == nil || json.Unmarshal(d.whole, &input) != nil {
		input = text(d.whole)
	}

	d.whole = nil
	if isEmpty(input) {
		return parts
	}

	return append(parts, model.Part{Kind: model.KindToolInput, Index: d.wholeAt, Text: string(input)})
}

// isEmpty reports whether an input has no properties. PHP encodes an empty object as a list.
func isEmpty(input text) bool {
	if input == "" {
		return true
	}

	var object map[string]json.RawMessage
	var list []json.RawMessage
	known := json.Unmarshal([]byte(input), &object) == nil || json.Unmarshal([]byte(input), &list) == nil
	return known && len(object)+len(list) == 0
}

// appendUsage reads cumulative totals. A zero does not replace an earlier total: some servers set
// them in only one of the two events. The totals of a response that has only started are not final.
func (d *decoder) appendUsage(parts []model.Part, u usage, final bool) []model.Part {
	sum := u.sum()
	final = final && sum != (model.Usage{})
	sum.InputTokens = cmp.Or(sum.InputTokens, d.usage.InputTokens)
	sum.OutputTokens = cmp.Or(sum.OutputTokens, d.usage.OutputTokens)
	sum.CacheCreationInputTokens = cmp.Or(sum.CacheCreationInputTokens, d.usage.CacheCreationInputTokens)
	sum.CacheReadInputTokens = cmp.Or(sum.CacheReadInputTokens, d.usage.CacheReadInputTokens)
	sum.ReasoningTokens = cmp.Or(sum.ReasoningTokens, d.usage.ReasoningTokens)
	sum.Estimated = sum != (model.Usage{}) && !final && (d.usage == model.Usage{} || d.usage.Estimated)
	if sum == d.usage {
		return parts
	}

	d.usage = sum
	return append(parts, model.Part{Kind: model.KindUsage, Usage: sum})
}
