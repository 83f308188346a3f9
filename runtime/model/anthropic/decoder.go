package anthropic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
	"github.com/seed93082962/agenthost/sse"
)

// decoder makes parts of the events of one answer.
type decoder struct {
	usage   model.Usage
	stop    string
	tools   bool            // there was a tool call
	unknown []int           // indexes of content blocks that are not for us, such as of server tools
	whole   json.RawMessage // input that came with the start of the open tool call
	wholeAt int
}

// Decode implements upstream.Decoder.
func (d *decoder) Decode(parts []model.Part, ev sse.Event) ([]model.Part, error) {
	if kind, index, increment, ok := scanDelta(ev.Data); ok {
		return d.increment(parts, kind, index, increment), nil
	}
	if out, ok, err := d.usual(parts, ev); ok {
		return out, err
	}
	return d.rest(parts, ev)
}

// usual is Decode for the other events of every answer.
//
//go:noinline // nor is the rest: frames like theirs are not for every token
func (d *decoder) usual(parts []model.Part, ev sse.Event) (out []model.Part, ok bool, err error) {
	var e event
	if !scanEvent(ev.Data, &e) {
		return parts, false, nil
	}
	out, err = d.take(parts, ev, &e)
	return out, true, err
}

// rest is Decode for what is out of the ordinary.
//
//go:noinline
func (d *decoder) rest(parts []model.Part, ev sse.Event) (out []model.Part, err error) {
	upstream.Aside(func() { out, err = d.event(parts, ev) })
	return out, err
}

func (d *decoder) event(parts []model.Part, ev sse.Event) ([]model.Part, error) {
	var e event
	if err := json.Unmarshal(ev.Data, &e); err != nil && !ignorable(ev, &e, err) {
		return parts, &model.Error{Code: model.CodeServer, Message: "upstream sent an event that cannot be read", Err: err}
	}
	return d.take(parts, ev, &e)
}

func (d *decoder) take(parts []model.Part, ev sse.Event, e *event) ([]model.Part, error) {
	switch e.Type {
	case "message_start":
		return d.count(parts, e.Message.Usage), nil
	case "content_block_start":
		return d.start(parts, e.Index, &e.ContentBlock)
	case "content_block_delta":
		return d.delta(parts, e.Index, &e.Delta), nil
	case "content_block_stop":
		return d.flush(parts, e.Index), nil
	case "message_delta":
		d.stop = cmp.Or(e.Delta.StopReason, d.stop)
		return d.count(parts, e.Usage), nil
	case "message_stop":
		stop := cmp.Or(d.stop, model.StopEndTurn)
		if d.stop == "" && d.tools {
			stop = model.StopToolUse
		}
		return append(parts, model.Part{Kind: model.KindStop, StopReason: stop}), nil
	case "error":
		return parts, upstream.ParseFault(ev.Data)
	}
	return parts, nil // ping, and what the API has learned since: it asks to ignore that
}

// Finished implements upstream.Decoder: message_stop always comes.
func (d *decoder) Finished() bool { return false }

// End implements upstream.Decoder: message_stop alone makes an answer whole.
func (d *decoder) End(parts []model.Part) []model.Part { return parts }

// ignorable tells what the API has learned since, and what need not be JSON, from an event that
// is damaged. A field of another type than expected has left everything else in e.
func ignorable(ev sse.Event, e *event, err error) bool {
	if shape := new(json.UnmarshalTypeError); errors.As(err, &shape) {
		switch e.Type {
		case "content_block_start":
			return !e.ContentBlock.known()
		case "content_block_delta":
			return !e.Delta.known()
		}
		return !known(e.Type)
	}
	if ev.Type == "" {
		return string(bytes.TrimSpace(ev.Data)) == "[DONE]" // as some gateways end every stream
	}
	return !known(ev.Type)
}

func known(typ string) bool {
	switch typ {
	case "message_start", "content_block_start", "content_block_delta", "content_block_stop",
		"message_delta", "message_stop", "error":
		return true
	}
	return false
}

func (d *decoder) start(parts []model.Part, index int, b *contentBlock) ([]model.Part, error) {
	d.unknown = slices.DeleteFunc(d.unknown, func(i int) bool { return i == index })
	add := func(kind model.Kind, text string) {
		if text != "" {
			parts = append(parts, model.Part{Kind: kind, Index: index, Text: text})
		}
	}
	switch b.Type {
	case "text":
		add(model.KindText, b.Text)
	case "thinking":
		add(model.KindThinking, b.Thinking)
		add(model.KindSignature, b.Signature)
	case "redacted_thinking":
		add(model.KindRedacted, b.Data)
	case "tool_use":
		d.tools = true
		parts = append(parts, model.Part{Kind: model.KindToolUse, Index: index, ID: b.ID, Name: b.Name})
		// The API sends {} here and the input in deltas; some servers send it all at once. Which
		// of the two it is shows when the block ends.
		d.whole, d.wholeAt = b.Input, index
	default:
		if len(d.unknown) == model.MaxAnswerBlocks {
			return parts, &model.Error{Code: model.CodeServer, Message: "upstream sent too many content blocks"}
		}
		d.unknown = append(d.unknown, index)
	}
	return parts, nil
}

func (d *decoder) delta(parts []model.Part, index int, b *delta) []model.Part {
	switch b.Type {
	case "text_delta":
		return d.increment(parts, model.KindText, index, b.Text)
	case "thinking_delta":
		return d.increment(parts, model.KindThinking, index, b.Thinking)
	case "signature_delta":
		return d.increment(parts, model.KindSignature, index, b.Signature)
	case "input_json_delta":
		return d.increment(parts, model.KindToolInput, index, b.PartialJSON)
	}
	return parts
}

func (d *decoder) increment(parts []model.Part, kind model.Kind, index int, text string) []model.Part {
	if text == "" || len(d.unknown) > 0 && slices.Contains(d.unknown, index) {
		return parts
	}
	if kind == model.KindToolInput && d.wholeAt == index {
		d.whole = nil
	}
	return append(parts, model.Part{Kind: kind, Index: index, Text: text})
}

// flush gives out the input of a tool call that no delta has told.
func (d *decoder) flush(parts []model.Part, index int) []model.Part {
	if len(d.whole) == 0 || d.wholeAt != index {
		return parts
	}
	input := d.whole
	d.whole = nil
	if string(input) == "{}" || !hasFields(input) {
		return parts
	}
	return append(parts, model.Part{Kind: model.KindToolInput, Index: index, Text: string(input)})
}

//go:noinline
func hasFields(input json.RawMessage) bool {
	var fields map[string]json.RawMessage
	upstream.Aside(func() { _ = json.Unmarshal(input, &fields) })
	return len(fields) > 0
}

// count takes in cumulative totals. Zero is no news: some servers fill in one of the two events
// alone.
func (d *decoder) count(parts []model.Part, u usage) []model.Part {
	sum := model.Usage{
		InputTokens:              cmp.Or(u.InputTokens, d.usage.InputTokens),
		OutputTokens:             cmp.Or(u.OutputTokens, d.usage.OutputTokens),
		CacheCreationInputTokens: cmp.Or(u.CacheCreationInputTokens, d.usage.CacheCreationInputTokens),
		CacheReadInputTokens:     cmp.Or(u.CacheReadInputTokens, d.usage.CacheReadInputTokens),
	}
	if sum == d.usage {
		return parts
	}
	d.usage = sum
	return append(parts, model.Part{Kind: model.KindUsage, Usage: sum})
}
