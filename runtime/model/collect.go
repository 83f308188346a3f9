package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
)

// Limits of a [Collector] for one response: an upstream that never stops must not exhaust memory.
const (
	MaxResponseBytes  = 64 << 20 // the largest MaxBytes of a Collector
	MaxResponseBlocks = 1024     // content blocks, including tool calls

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
	Message    Message
	Usage      Usage
	StopReason string // "" if the response is not complete
}

// Collector assembles a [Response] from its parts. Its zero value is ready for use.
type Collector struct {
	// MaxBytes limits the texts, thinking, ids, tool inputs and other fields of the response
	// together, with 256 for each block. Defaults to MaxResponseBytes, which is also the maximum.
	MaxBytes int

	blocks []block
	size   int
	usage  Usage
	stop   string
}

type block struct {
	index int
	Block
	buf []byte // grows into Text, Data or Input
	sig []byte
}

// Add adds one part. It returns an [*Error] with [CodeServer] if the response exceeds a limit.
func (c *Collector) Add(p *Part) error {
	c.size += len(p.Text) + len(p.ID)
	if c.size > c.max() || len(p.ID)|len(p.Name)|len(p.StopReason) >= maxStopReasonBytes {
		if err := c.over(p); err != nil {
			return err
		}
	}

	var t BlockType
	switch p.Kind {
	case KindText:
		t = BlockText
	case KindThinking, KindSignature, KindThinkingField, KindThinkingDetails:
		t = BlockThinking
	case KindRedacted:
		t = BlockRedacted
	case KindToolUse, KindToolInput, KindToolExtra:
		t = BlockToolUse
	case KindUsage:
		c.usage = p.Usage.bounded()
		return nil
	case KindStop:
		c.stop = p.StopReason
		return nil
	default:
		return nil
	}

	b := c.at(p.Index, t)
	if b == nil {
		return &Error{Code: CodeServer, Message: "the response exceeds the limit of 1024 content blocks"}
	}

	switch p.Kind {
	case KindToolUse:
		b.ID, b.Name = p.ID, p.Name
	case KindSignature:
		b.sig = append(b.sig, p.Text...)
	case KindThinkingField:
		b.Field = p.Name
	case KindThinkingDetails:
		b.Details = json.RawMessage(p.Text)
	case KindToolExtra:
		b.Extra = json.RawMessage(p.Text)
	default:
		b.buf = append(b.buf, p.Text...)
	}

	return nil
}

func (c *Collector) max() int {
	if c.MaxBytes <= 0 || c.MaxBytes > MaxResponseBytes {
		return MaxResponseBytes
	}

	return c.MaxBytes
}

// Size returns the bytes of the response so far, as MaxBytes counts them.
func (c *Collector) Size() int { return c.size }

// over returns an error if the response with p exceeds a limit.
func (c *Collector) over(p *Part) error {
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

	return &Error{Code: CodeServer, Message: what}
}

// at returns the newest block with that index and type, or a new block. It returns nil if there are
// too many.
func (c *Collector) at(index int, t BlockType) *block {
	for i := len(c.blocks) - 1; i >= 0; i-- {
		if b := &c.blocks[i]; b.index == index && b.Type == t {
			return b
		}
	}

	if len(c.blocks) == MaxResponseBlocks {
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
	a := Response{Message: Message{Role: RoleAssistant}, Usage: c.usage, StopReason: c.stop}
	for i := range c.blocks {
		b := c.blocks[i].Block
		buf := c.blocks[i].buf
		switch b.Type {
		case BlockText:
			if len(buf) == 0 {
				continue
			}

			b.Text = string(buf)
		case BlockThinking:
			b.Text, b.Signature = string(buf), string(c.blocks[i].sig)
		case BlockRedacted:
			b.Data = string(buf)
		case BlockToolUse:
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

// object returns raw as a compact JSON object. Empty input becomes an empty object, because
// upstreams send no input for a call without arguments. A member that occurs twice is an error: the
// permissions and the tool could take different ones.
func object(raw []byte) (json.RawMessage, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return json.RawMessage("{}"), true
	}

	if raw[0] != '{' {
		return nil, false
	}

	out, err := jsonlimit.Limit{Values: MaxResponseBytes}.Compact(raw)
	return out, err == nil
}

// Collect adds all parts and returns the response. On an error it returns the beginning of the
// response with the error.
func (c *Collector) Collect(parts iter.Seq2[Part, error]) (Response, error) {
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
