package openai

import (
	"bytes"
	"cmp"
	"encoding/json"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
	"github.com/seed93082962/agenthost/sse"
)

// Indexes of parts. The format has no content blocks: all thinking is one, all text is one, and
// tool calls follow in the order in which they came.
const (
	indexThinking = iota
	indexText
	indexTools
)

// decoder makes parts of the chunks of one answer.
type decoder struct {
	usage   model.Usage
	stop    string
	refused bool
	calls   calls
}

// Decode implements upstream.Decoder.
func (d *decoder) Decode(parts []model.Part, ev sse.Event) ([]model.Part, error) {
	if kind, increment, ok := scanChunk(ev.Data); ok {
		return appendText(parts, kind, increment), nil
	}
	if string(bytes.TrimSpace(ev.Data)) == "[DONE]" {
		if d.stop == "" {
			return parts, upstream.ErrEnded
		}
		return d.whole(parts), nil
	}
	if out, ok, err := d.usual(parts, ev); ok {
		return out, err
	}
	return d.rest(parts, ev)
}

// usual is Decode for the other chunks of most answers.
//
//go:noinline // nor is the rest: frames like theirs are not for every token
func (d *decoder) usual(parts []model.Part, ev sse.Event) (out []model.Part, ok bool, err error) {
	var c chunk
	if ev.Type == "error" || !scanWhole(ev.Data, &c) {
		return parts, false, nil
	}
	out, err = d.take(parts, &c)
	return out, true, err
}

// rest is Decode for what is out of the ordinary.
//
//go:noinline
func (d *decoder) rest(parts []model.Part, ev sse.Event) (out []model.Part, err error) {
	upstream.Aside(func() { out, err = d.chunk(parts, ev) })
	return out, err
}

func (d *decoder) chunk(parts []model.Part, ev sse.Event) ([]model.Part, error) {
	var c chunk
	if err := json.Unmarshal(ev.Data, &c); err != nil {
		if ev.Type != "" && ev.Type != "message" && ev.Type != "error" {
			return parts, nil // a gateway's own kind of event
		}
		return parts, unreadable(err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" || ev.Type == "error" {
		return parts, upstream.ParseFault(ev.Data)
	}
	return d.take(parts, &c)
}

func (d *decoder) take(parts []model.Part, c *chunk) ([]model.Part, error) {
	for i := range c.Choices {
		if c.Choices[i].Index != 0 {
			continue // only one was asked for
		}
		var err error
		if parts, err = d.choice(parts, &c.Choices[i]); err != nil {
			return parts, err
		}
	}
	return d.count(parts, c.Usage), nil
}

func unreadable(err error) error {
	return &model.Error{Code: model.CodeServer, Message: "upstream sent a chunk that cannot be read", Err: err}
}

// Finished implements upstream.Decoder: usage and [DONE] may follow a finish reason, and nothing else.
func (d *decoder) Finished() bool { return d.stop != "" }

// End implements upstream.Decoder. With a finish reason the answer is whole, however the stream
// ended, and also where upstream goes silent and leaves it open.
func (d *decoder) End(parts []model.Part) []model.Part {
	if d.stop == "" {
		return parts
	}
	return d.whole(parts)
}

//go:noinline // as rest
func (d *decoder) whole(parts []model.Part) []model.Part {
	return append(parts, model.Part{Kind: model.KindStop, StopReason: d.stop})
}

func (d *decoder) choice(parts []model.Part, c *choice) ([]model.Part, error) {
	parts = appendText(parts, model.KindThinking, cmp.Or(c.Delta.ReasoningContent, c.Delta.Reasoning, c.Delta.Content.Thinking))
	parts = appendText(parts, model.KindText, c.Delta.Content.Text)
	parts = appendText(parts, model.KindText, c.Delta.Refusal)
	d.refused = d.refused || c.Delta.Refusal != ""
	for i := range c.Delta.ToolCalls {
		var err error
		if parts, err = d.calls.add(parts, &c.Delta.ToolCalls[i]); err != nil {
			return parts, err
		}
	}
	parts = d.count(parts, c.Usage)
	if c.FinishReason == "" {
		return parts, nil
	}
	if c.FinishReason == "error" {
		return parts, &upstream.Fault{Type: "server_error"}
	}
	if !d.calls.named() {
		return parts, &model.Error{Code: model.CodeServer, Message: "upstream sent a tool call without a name"}
	}
	d.stop = d.reason(c.FinishReason)
	return parts, nil
}

func (d *decoder) reason(finish string) string {
	switch finish {
	case "stop":
		switch {
		case len(d.calls.list) > 0: // as some servers end an answer that calls tools
			return model.StopToolUse
		case d.refused:
			return model.StopRefusal
		}
		return model.StopEndTurn
	case "tool_calls", "function_call":
		return model.StopToolUse
	case "length":
		return model.StopMaxTokens
	case "content_filter":
		return model.StopRefusal
	}
	return finish
}

// count takes in totals; some servers send them with every chunk. What was read from the cache is
// part of the prompt's tokens here and beside them in model.Usage.
func (d *decoder) count(parts []model.Part, u *usage) []model.Part {
	if u == nil {
		return parts
	}
	cached := cmp.Or(u.PromptTokensDetails.CachedTokens, u.PromptCacheHitTokens)
	sum := model.Usage{
		InputTokens:          max(u.PromptTokens-cached, 0),
		OutputTokens:         u.CompletionTokens,
		CacheReadInputTokens: cached,
	}
	if sum == d.usage {
		return parts
	}
	d.usage = sum
	return append(parts, model.Part{Kind: model.KindUsage, Usage: sum})
}

func appendText(parts []model.Part, kind model.Kind, text string) []model.Part {
	if text == "" {
		return parts
	}
	index := indexText
	if kind == model.KindThinking {
		index = indexThinking
	}
	return append(parts, model.Part{Kind: kind, Index: index, Text: text})
}
