// Package collect assembles the response of a model from its parts.
package collect

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
)

// Limits of a [Collector] for one response: an upstream that never stops must not exhaust memory.
const (
	MaxTotal  = 64 << 20 // the largest MaxBytes of a Collector
	MaxBlocks = 1024     // content blocks, including tool calls

	blockBytes = 256 // approximate memory of a block without its text

	// APIs accept names of 64 bytes, and have a dozen stop reasons. Much longer ones would be stored
	// in every session and sent to every reader. Gateways put a signature of Gemini, of some KiB,
	// into the id of a call, which must be sent back unchanged.
	maxNameBytes       = 256
	maxIDBytes         = 64 << 10
	maxStopReasonBytes = 128
)

// Response is a complete response of a model, or its beginning if an error ended it.
type Response struct {
	Message    model.Message
	Usage      model.Usage
	StopReason string // "" if the response is not complete
}

// Collector assembles a [Response] from its parts. Its zero value is ready for use.
type Collector struct {
	// MaxBytes limits the texts, thinking, ids, tool inputs and other fields of the response
	// together, with 256 for each block. Defaults to MaxTotal, which is also the maximum.
	MaxBytes int

	blocks []block
	size   int
	usage  model.Usage
	stop   string
}

type block struct {
	index int
	model.Block
	buf []byte // grows into Text, Data or Input
	sig []byte
}

// Add adds one part. It returns an [*model.Error] with Code server if the response exceeds a limit.
func (c *Collector) Add(p *model.Part) error {
	c.size += len(p.Text) + len(p.ID)
	if c.size > c.max() || len(p.ID)|len(p.Name)|len(p.StopReason) >= maxStopReasonBytes {
		if err := c.over(p); err != nil {
			return err
		}
	}

	var t model.BlockType
	switch p.Kind {
	case model.KindText:
		t = model.BlockText
	case model.KindThinking, model.KindSignature, model.KindThinkingField, model.KindThinkingDetails:
		t = model.BlockThinking
	case model.KindRedacted:
		t = model.BlockRedacted
	case model.KindToolUse, model.KindToolInput, model.KindToolExtra:
		t = model.BlockToolUse
	case model.KindUsage:
		c.usage = bounded(p.Usage)
		return nil
	case model.KindStop:
		c.stop = p.StopReason
		return nil
	default:
		return nil
	}

	b := c.at(p.Index, t)
	if b == nil {
		return &model.Error{Code: runvalue.ErrorTypeServer, Message: "the response exceeds the limit of 1024 content blocks"}
	}

	switch p.Kind {
	case model.KindToolUse:
		b.ID, b.Name = p.ID, p.Name
		if c.hasTwice(p.ID) { // of a model of an embedder: results and answers have the id of their call
			b.ID = rand.Text()
		}
	case model.KindSignature:
		b.sig = append(b.sig, p.Text...)
	case model.KindThinkingField:
		b.Field = p.Name
	case model.KindThinkingDetails:
		b.Details = json.RawMessage(p.Text)
	case model.KindToolExtra:
		b.Extra = json.RawMessage(p.Text)
	default:
		b.buf = append(b.buf, p.Text...)
	}

	return nil
}

// hasTwice reports whether two calls have an id.
func (c *Collector) hasTwice(id string) bool {
	count := 0
	for i := range c.blocks {
		if b := &c.blocks[i]; b.Type == model.BlockToolUse && b.ID == id {
			count++
		}
	}

	return count > 1
}

func (c *Collector) max() int {
	if c.MaxBytes <= 0 || c.MaxBytes > MaxTotal {
		return MaxTotal
	}

	return c.MaxBytes
}

// Size returns the bytes of the response so far, as MaxBytes counts them.
func (c *Collector) Size() int { return c.size }

// over returns an error if the response with p exceeds a limit.
func (c *Collector) over(p *model.Part) error {
	var what string
	switch {
	case len(p.Name) > maxNameBytes:
		what = "the name of a tool exceeds the limit of 256 bytes"
	case len(p.ID) > maxIDBytes:
		what = "the id of a tool call exceeds the limit of 64 KiB"
	case len(p.StopReason) > maxStopReasonBytes:
		what = "the stop reason exceeds the limit of 128 bytes"
	case c.size > c.max():
		what = fmt.Sprintf("the response exceeds the limit of %d bytes", c.max())
	default:
		return nil
	}

	return &model.Error{Code: runvalue.ErrorTypeServer, Message: what}
}

// at returns the newest block with that index and type, or a new block. It returns nil if there are
// too many.
func (c *Collector) at(index int, t model.BlockType) *block {
	for i := len(c.blocks) - 1; i >= 0; i-- {
		if b := &c.blocks[i]; b.index == index && b.Type == t {
			return b
		}
	}

	if len(c.blocks) == MaxBlocks {
		return nil
	}

	c.size += blockBytes
	c.blocks = append(c.blocks, block{})
	b := &c.blocks[len(c.blocks)-1]
	b.index, b.Type = index, t
	return b
}

// Response returns the response so far. It omits empty text blocks and, if the response is not
// complete, tool calls with an incomplete input.
func (c *Collector) Response() Response {
	a := Response{Message: model.Message{Role: model.RoleAssistant}, Usage: c.usage, StopReason: c.stop}
	for i := range c.blocks {
		b := c.blocks[i].Block
		buf := c.blocks[i].buf
		switch b.Type {
		case model.BlockText:
			if len(buf) == 0 {
				continue
			}

			b.Text = string(buf)
		case model.BlockThinking:
			b.Text, b.Signature = string(buf), string(c.blocks[i].sig)
		case model.BlockRedacted:
			b.Data = string(buf)
		case model.BlockToolUse:
			// A response that was cut off before the first byte of an input looks like a call
			// without input.
			if c.stop == "" && len(buf) == 0 {
				continue
			}

			var ok bool
			if b.Input, ok = object(buf); !ok {
				if c.stop == "" {
					continue
				}

				b.Input, b.BadInput = json.RawMessage("{}"), string(buf)
			}
		}

		a.Message.Content = append(a.Message.Content, b)
	}

	return a
}

// object returns raw as a compact JSON object. Empty input and null become an empty object, because
// upstreams send no input for a call without arguments. Some send the object as a JSON string. A
// member that occurs twice is an error: the permissions and the tool could take different ones.
func object(raw []byte) (json.RawMessage, bool) {
	raw = bytes.TrimSpace(raw)
	var text string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		raw = bytes.TrimSpace([]byte(text))
	}

	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}"), true
	}

	if raw[0] != '{' {
		return nil, false
	}

	out, err := jsonlimit.Limit{Values: MaxTotal}.Compact(raw)
	return out, err == nil
}

// Collect adds all parts and returns the response. On an error it returns the beginning of the
// response with the error.
func (c *Collector) Collect(parts iter.Seq2[model.Part, error]) (Response, error) {
	for p, err := range parts {
		if err == nil {
			err = c.Add(&p)
		}

		if err != nil {
			return c.Response(), err
		}
	}

	if c.stop == "" {
		return c.Response(), errors.New("the model ended its response without a stop reason")
	}

	return c.Response(), nil
}

// maxTokens bounds each count of one call: an upstream may send any number.
const maxTokens = 1 << 40

// bounded returns u with counts from 0 to maxTokens.
func bounded(u model.Usage) model.Usage {
	bound := func(n int64) int64 { return min(max(n, 0), maxTokens) }
	u.InputTokens = bound(u.InputTokens)
	u.OutputTokens = bound(u.OutputTokens)
	u.CacheCreationInputTokens = bound(u.CacheCreationInputTokens)
	u.CacheReadInputTokens = bound(u.CacheReadInputTokens)
	u.ReasoningTokens = min(bound(u.ReasoningTokens), u.OutputTokens)
	return u
}

// EstimateTokens estimates the tokens of a text: one for four bytes of ASCII or two other bytes.
func EstimateTokens[T ~string | ~[]byte](text T) int64 {
	n := len(text)
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			n++
		}
	}

	return int64(n) / 4
}

// EstimateTokens estimates the output tokens of the response so far, including the inputs of
// incomplete tool calls.
func (c *Collector) EstimateTokens() int64 {
	n := int64(0)
	for i := range c.blocks {
		b := &c.blocks[i]
		n += 1 + EstimateTokens(b.buf) + EstimateTokens(b.sig) + EstimateTokens(b.Name) + EstimateTokens(b.Details)
	}

	return n
}
