package openai

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/internal/upstream"
	"github.com/seed93082962/agenthost/sse"
)

// Indexes of parts. The format has no content blocks: all thinking is one block, all text is one
// block, and tool calls follow in the order of their first fragments.
const (
	indexThinking = iota
	indexText
	indexTools
)

// Names of the fields that carry thinking: values of model.Block.Field.
const (
	fieldReasoningContent = "reasoning_content"
	fieldReasoning        = "reasoning"
	fieldContent          = "content" // a list with pieces of thinking (Mistral)
)

// decoder decodes the chunks of one response into parts.
type decoder struct {
	name    upstream.Name
	usage   model.Usage
	behind  bool // content has come since usage
	stop    string
	refused bool
	shaped  bool  // a choice had content in a known form
	deltas  kinds // that came in deltas
	wholes  kinds // that came in messages
	calls   calls
	joiner  upstream.Joiner
	field   string // that carried thinking, "" until there is one
	details details
}

// Decode implements upstream.Decoder.
func (d *decoder) Decode(parts []model.Part, ev sse.Event) ([]model.Part, error) {
	// The first chunk with a field for thinking is left to encoding/json, which records the name of
	// the field.
	if inc, ok := scanChunk(ev.Data); ok && (!inc.reasons || d.field != "") {
		d.shaped = true
		d.deltas.text = d.deltas.text || inc.kind == model.KindText
		d.deltas.thinking = d.deltas.thinking || inc.kind == model.KindThinking
		d.behind = d.behind || inc.text != ""
		return d.joiner.Append(parts, inc.kind, inc.index(), inc.text), nil
	}

	return d.decodeAny(parts, ev)
}

// decodeAny is Decode for every chunk that the scanner leaves to encoding/json.
func (d *decoder) decodeAny(parts []model.Part, ev sse.Event) ([]model.Part, error) {
	switch data := bytes.TrimSpace(ev.Data); {
	case string(data) == "[DONE]":
		return d.appendDone(parts)
	case len(data) == 0:
		return parts, nil // a keepalive of some servers
	}

	var c chunk
	err := json.Unmarshal(ev.Data, &c)
	if fault := upstream.FaultIn(ev); fault != nil {
		return parts, fault
	}

	if err != nil {
		if ev.Type != "" && ev.Type != "message" {
			return parts, nil // an event type of a gateway
		}

		return parts, &model.Error{Code: runvalue.ErrorTypeServer, Message: "upstream sent a chunk that cannot be read", Err: err}
	}

	return d.appendChunk(parts, &c)
}

func (d *decoder) appendChunk(parts []model.Part, c *chunk) ([]model.Part, error) {
	d.name.Set(c.Model)
	for i := range c.Choices {
		if c.Choices[i].Index > 0 {
			continue // the request asks for one choice
		}

		var err error
		if parts, err = d.appendChoice(parts, &c.Choices[i]); err != nil {
			return parts, err
		}
	}

	if c.XGroq.Error != "" {
		return parts, &upstream.Fault{Type: "server_error", Message: string(c.XGroq.Error)}
	}

	return d.appendUsage(d.appendUsage(parts, c.XGroq.Usage), c.Usage), nil
}

// appendDone ends a response at [DONE]. Without a finish reason it is complete if it has any
// content.
func (d *decoder) appendDone(parts []model.Part) ([]model.Part, error) {
	if d.stop == "" {
		if !d.shaped || !d.calls.complete() {
			return parts, upstream.ErrEnded
		}

		d.stop = d.stopReason("stop")
	}

	return d.appendStop(parts), nil
}

// Finished implements upstream.Decoder: only usage and [DONE] may follow a finish reason.
func (d *decoder) Finished() bool { return d.stop != "" }

// End implements upstream.Decoder. A response with a finish reason is complete regardless of how
// the stream ends, even if upstream sends nothing more and leaves the connection open.
func (d *decoder) End(parts []model.Part) []model.Part {
	if d.stop == "" {
		return parts
	}

	return d.appendStop(parts)
}

func (d *decoder) appendStop(parts []model.Part) []model.Part {
	parts = d.joiner.Flush(parts)
	if text := d.details.json(d.calls.list); text != "" {
		parts = append(parts, model.Part{Kind: model.KindThinkingDetails, Index: indexThinking, Text: text})
	}

	if d.behind && d.usage != (model.Usage{}) { // totals of the beginning are not final
		d.usage.Estimated = true
		parts = append(parts, model.Part{Kind: model.KindUsage, Usage: d.usage})
	}

	return append(parts, model.Part{Kind: model.KindStop, StopReason: d.stop})
}

func (d *decoder) appendChoice(parts []model.Part, c *choice) ([]model.Part, error) {
	if c.Delta != nil {
		d.shaped = true
		d.deltas.add(c.Delta)
		var err error
		if parts, err = d.appendDelta(parts, c.Delta); err != nil {
			return parts, err
		}
	}

	// Some servers send everything so far as a message, next to each delta (Perplexity) or with the
	// finish reason (MiniMax). Kinds of content that have come are ignored.
	if c.Message != nil && (c.Delta == nil || c.FinishReason != "") {
		d.shaped = true
		c.Message.drop(d.deltas)
		if c.Delta != nil {
			c.Message.drop(d.wholes)
		}

		d.wholes.add(c.Message)
		var err error
		if parts, err = d.appendDelta(parts, c.Message); err != nil {
			return parts, err
		}
	}

	parts = d.appendUsage(parts, c.Usage)
	native, _ := c.Native.(string)
	for _, reason := range []string{c.FinishReason, native} {
		if fault := upstream.Interrupted(reason); fault != nil {
			return parts, fault
		}
	}

	switch {
	case c.FinishReason == "":
		return parts, nil
	case !d.calls.named():
		return parts, &model.Error{Code: runvalue.ErrorTypeServer, Message: "upstream sent a tool call without a name"}
	case !d.shaped:
		return parts, &model.Error{Code: runvalue.ErrorTypeServer,
			Message: "upstream sent a response that is not a chat completion: its choices have neither delta nor message"}
	}

	d.stop = d.stopReason(c.FinishReason)
	return parts, nil
}

func (d *decoder) appendDelta(parts []model.Part, c *delta) ([]model.Part, error) {
	thinking := c.Content.Thinking
	switch {
	case c.ReasoningContent != nil && (*c.ReasoningContent != "" || c.Reasoning == nil):
		parts = d.appendField(parts, fieldReasoningContent)
		thinking = string(*c.ReasoningContent)
	case c.Reasoning != nil:
		parts = d.appendField(parts, fieldReasoning)
		thinking = string(*c.Reasoning)
	case c.Content.IsList && thinking != "":
		parts = d.appendField(parts, fieldContent)
	}

	if err := d.details.add(c.ReasoningDetails); err != nil {
		return parts, err
	}

	d.behind = d.behind || thinking+c.Content.Text+string(c.Refusal) != "" || len(c.ToolCalls) > 0
	parts = d.joiner.Append(parts, model.KindThinking, indexThinking, thinking)
	parts = d.joiner.Append(parts, model.KindText, indexText, c.Content.Text)
	parts = d.joiner.Append(parts, model.KindText, indexText, string(c.Refusal))
	d.refused = d.refused || c.Refusal != ""
	if f := c.FunctionCall; f != nil && len(c.ToolCalls) == 0 {
		c.ToolCalls = []toolDelta{{Index: new(count), Function: *f}}
	}

	for i := range c.ToolCalls {
		var err error
		if parts, err = d.calls.add(parts, &d.joiner, &c.ToolCalls[i]); err != nil {
			return parts, err
		}
	}

	return parts, nil
}

// appendField records the first field of the response that carries thinking.
func (d *decoder) appendField(parts []model.Part, name string) []model.Part {
	if d.field != "" {
		return parts
	}

	d.field = name
	return append(parts, model.Part{Kind: model.KindThinkingField, Index: indexThinking, Name: name})
}

// stopReason maps a finish reason to those of model. Servers differ in letter case, pass on the
// reasons of the model behind them, and add details, such as "content_filter: RECITATION". An
// unknown reason is returned unchanged.
func (d *decoder) stopReason(finish string) string {
	kind, _, _ := strings.Cut(strings.ToLower(finish), ":")
	switch kind {
	case "stop", "eos", "eos_token", "end_turn", "end", "complete", "completed", "stop_sequence":
		switch {
		case len(d.calls.list) > 0: // some servers send it after tool calls too
			return model.StopToolUse
		case d.refused:
			return model.StopRefusal
		}

		return model.StopEndTurn
	case "tool_calls", "function_call", "tool_call", "tool_use":
		return model.StopToolUse
	case "length", "max_tokens", "model_length":
		return model.StopMaxTokens
	case "content_filter", "safety", "refusal", "sensitive", "recitation", "prohibited_content", "blocklist", "spii":
		return model.StopRefusal
	}

	return finish
}

// appendUsage reads totals, which some servers send with every chunk.
func (d *decoder) appendUsage(parts []model.Part, u *usage) []model.Part {
	if u == nil {
		return parts
	}

	sum := u.sum()
	d.behind = d.behind && sum == model.Usage{}
	if sum == d.usage {
		return parts
	}

	d.usage = sum
	return append(parts, model.Part{Kind: model.KindUsage, Usage: sum})
}
