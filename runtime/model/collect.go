package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"strings"
)

// What a [Collector] takes in for one answer: an upstream that never stops must eat neither the
// host's memory nor its time.
const (
	MaxAnswerBytes  = 64 << 20 // of all texts, with blockBytes for each block
	MaxAnswerBlocks = 1024     // of content, tool calls among them

	blockBytes = 256 // of memory that a block takes beside its text, about

	// APIs take names and ids of 64 bytes, and have a dozen stop reasons. What is longer by far
	// would be kept in every session and sent to every reader.
	maxNameBytes       = 256
	maxStopReasonBytes = 128
)

// Answer is one whole answer of a model, or what came of it before an error.
type Answer struct {
	Message    Message
	Usage      Usage
	StopReason string // "" when the answer did not come to its end
}

// Collector puts an [Answer] together from its parts. Its zero value is ready for use.
type Collector struct {
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

// Add takes in one part. Its error is an [*Error] of [CodeServer]: the answer is over a limit.
func (c *Collector) Add(p *Part) error {
	c.size += len(p.Text)
	if c.size > MaxAnswerBytes || len(p.ID)|len(p.Name)|len(p.StopReason) >= maxStopReasonBytes {
		if err := c.over(p); err != nil {
			return err
		}
	}
	var t BlockType
	switch p.Kind {
	case KindText:
		t = BlockText
	case KindThinking, KindSignature:
		t = BlockThinking
	case KindRedacted:
		t = BlockRedacted
	case KindToolUse, KindToolInput:
		t = BlockToolUse
	case KindUsage:
		c.usage = p.Usage
		return nil
	case KindStop:
		c.stop = p.StopReason
		return nil
	default:
		return nil
	}
	b := c.at(p.Index, t)
	if b == nil {
		return errTooManyBlocks()
	}
	switch p.Kind {
	case KindToolUse:
		b.ID, b.Name = p.ID, p.Name
	case KindSignature:
		b.sig = append(b.sig, p.Text...)
	default:
		b.buf = append(b.buf, p.Text...)
	}
	return nil
}

// over returns the error of a part that goes past a limit, nil where it does not.
//
//go:noinline // as at
func (c *Collector) over(p *Part) error {
	var what string
	switch {
	case len(p.Name) > maxNameBytes:
		what = "a tool's name is over the limit of 256 bytes"
	case len(p.ID) > maxNameBytes:
		what = "the id of a tool call is over the limit of 256 bytes"
	case len(p.StopReason) > maxStopReasonBytes:
		what = "the stop reason is over the limit of 128 bytes"
	case c.size > MaxAnswerBytes:
		what = "the answer is over the limit of 64 MiB"
	default:
		return nil
	}
	return &Error{Code: CodeServer, Message: what}
}

//go:noinline // as at
func errTooManyBlocks() error {
	return &Error{Code: CodeServer, Message: "the answer is over the limit of 1024 content blocks"}
}

// at returns the block with that index and type, from the newest back; a new one if there is none,
// nil where that would be one too many.
//
//go:noinline // its frame would count for every token: the stack of a waiting stream is its largest part
func (c *Collector) at(index int, t BlockType) *block {
	for i := len(c.blocks) - 1; i >= 0; i-- {
		if b := &c.blocks[i]; b.index == index && b.Type == t {
			return b
		}
	}
	if len(c.blocks) == MaxAnswerBlocks {
		return nil
	}
	c.size += blockBytes
	c.blocks = append(c.blocks, block{})
	b := &c.blocks[len(c.blocks)-1]
	b.index, b.Type = index, t
	return b
}

// Answer returns what has come so far. Empty text blocks are left out. Tool calls whose input
// did not come to its end are left out too where the answer was cut off.
func (c *Collector) Answer() Answer {
	a := Answer{Message: Message{Role: RoleAssistant}, Usage: c.usage, StopReason: c.stop}
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
			// An answer that was cut off before the first byte of an input looks like a call
			// without one, and must not be taken for it.
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

// object returns raw as a compact JSON object; nothing at all counts as an empty one, since
// that is how upstreams write a call without input.
func object(raw []byte) (json.RawMessage, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return json.RawMessage("{}"), true
	}
	if raw[0] != '{' {
		return nil, false
	}
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		return nil, false
	}
	return out.Bytes(), true
}

// Collect reads a whole answer. On an error it returns it with what had come before.
func Collect(parts iter.Seq2[Part, error]) (Answer, error) {
	var c Collector
	for p, err := range parts {
		if err == nil {
			err = c.Add(&p)
		}
		if err != nil {
			return c.Answer(), err
		}
	}
	if c.stop == "" {
		return c.Answer(), errors.New("model ended its answer without a stop reason")
	}
	return c.Answer(), nil
}

// Text joins the text that has come so far, also of an unfinished answer.
func (c *Collector) Text() string {
	var text strings.Builder
	for i := range c.blocks {
		if c.blocks[i].Type == BlockText {
			text.Write(c.blocks[i].buf)
		}
	}
	return text.String()
}
