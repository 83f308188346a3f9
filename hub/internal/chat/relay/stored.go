package relay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"sync"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/internal/aigc"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// Stored is an answer as it is stored while it is in progress, or after its end. Any number of
// readers share it.
type Stored struct {
	SessionID string
	MessageID string
	Model     string
	Usage     runtimewire.Usage
	Blocks    []byte // the JSON array of its blocks, see [Labelled]
	Ended     bool   // otherwise the last block may become longer

	maxBlocks int // bytes of the blocks of one event. Defaults to maxBlocksData
	split     sync.Once
	complete  []json.RawMessage
	text      string // of the last block, if it may become longer
}

// Labelled returns the blocks of a stored text and content with the notice of the answer, unless
// there is nothing from a model.
func Labelled(text, content, notice string, at aigc.Mode) []byte {
	blocks := Array(TextBlock(text))
	if content != "" {
		blocks = StoredBlocks(content)
	}

	if notice == "" || !Generated(text, content) {
		return blocks
	}

	if at == aigc.ModePrepend {
		return Array(TextBlock(notice), inner(blocks))
	}

	return Array(inner(blocks), TextBlock(notice))
}

// inner returns the elements of a JSON array.
func inner(blocks []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimPrefix(blocks, []byte("[")), []byte("]"))
}

// Place is the part of a stored answer that a reader has: its first blocks, and the first bytes of
// the text of the next block. The zero value is the start.
type Place struct {
	blocks, bytes int
	sum           uint32 // of the bytes
}

// endID is the id of the last event of a stored answer.
const endID = "stored-end"

// IsEnd reports whether an id is that of the last event of a stored answer.
func IsEnd(id string) bool { return id == endID }

const placeFormat = "stored-%d-%d-%08x"

// PlaceOf returns the place of an id of an event. An id of a journal is that of a place that no
// answer has, so that a gap follows.
func PlaceOf(id string) Place {
	var p Place
	if id == "" {
		return p
	}

	_, err := fmt.Sscanf(id, placeFormat, &p.blocks, &p.bytes, &p.sum)
	if err != nil || p.id() != id || p.blocks < 0 || p.bytes < 0 {
		return Place{blocks: math.MaxInt}
	}

	return p
}

func (p Place) id() string { return fmt.Sprintf(placeFormat, p.blocks, p.bytes, p.sum) }

// maxText bounds the text of one partial message, in bytes.
const maxText = 32 << 10

// maxBlocksData bounds the blocks of one event, unless one block is longer. The event has other
// fields too.
const maxBlocksData = runvalue.MaxData - 4<<10

// Send queues the part of the answer that a reader does not have, and changes its place: complete
// blocks as an assistant event, and the text of the last block as partial messages. If the reader
// has another text, a gap and the whole answer replace it.
func (s *Stored) Send(stream *sse.Stream, p *Place) error { return s.send(stream.Queue, p, Place.id) }

func (s *Stored) send(queue func(sse.Event) error, p *Place, id func(Place) string) error {
	s.split.Do(s.parse)
	blocks, text := s.complete, s.text
	whole, rest, ok := p.completed(blocks)
	if !ok || len(blocks) == p.blocks && !p.begins(text) {
		*p, whole, rest = Place{}, 0, ""
		if err := send(queue, &wire.Gap{Type: "hub.gap"}, id(*p)); err != nil {
			return err
		}
	}

	if err := p.sendText(queue, rest, id); err != nil {
		return err
	}

	for p.blocks < len(blocks) {
		next := blocks[p.blocks:]
		if whole > p.blocks {
			next = blocks[p.blocks:whole]
		}

		event := s.message(next)
		if *p = (Place{blocks: p.blocks + len(event.Message.Content)}); p.blocks == len(blocks) {
			event.Usage = s.Usage
		}

		if err := send(queue, event, id(*p)); err != nil {
			return err
		}
	}

	return p.sendText(queue, text[p.bytes:], id)
}

// sendText queues the next part of the text of a block as partial messages.
func (p *Place) sendText(queue func(sse.Event) error, text string, id func(Place) string) error {
	for text != "" {
		part := head(text)
		text = text[len(part):]
		p.bytes += len(part)
		p.sum = crc32.Update(p.sum, crc32.IEEETable, []byte(part))
		event := &runtimewire.PartialMessage{Partial: runtimewire.Partial{Type: runtimewire.PartialText, Text: part}}
		if err := send(queue, event, id(*p)); err != nil {
			return err
		}
	}

	return nil
}

// completed returns how many of the blocks there are up to the one of whose text the reader has a
// part, and the rest of the text, so that it precedes the event with the block. It reports whether
// the reader has no other text.
func (p Place) completed(blocks []json.RawMessage) (int, string, bool) {
	if len(blocks) <= p.blocks || p.bytes == 0 {
		return 0, "", len(blocks) >= p.blocks
	}

	for i, block := range blocks[p.blocks:] {
		if text, ok := textOf(block); ok && p.begins(text) {
			return p.blocks + i + 1, text[p.bytes:], true
		} else if ok {
			break
		}
	}

	return 0, "", false
}

// begins reports whether a text begins with that of the reader.
func (p Place) begins(text string) bool {
	return len(text) >= p.bytes && crc32.ChecksumIEEE([]byte(text[:p.bytes])) == p.sum
}

// parse sets the complete blocks, and the text of the last one if it may become longer.
func (s *Stored) parse() {
	for raw := range jsonlimit.Elements(s.Blocks) {
		s.complete = append(s.complete, raw)
	}

	if s.Ended || len(s.complete) == 0 {
		return
	}

	last := len(s.complete) - 1
	if text, ok := textOf(s.complete[last]); ok {
		s.complete, s.text = s.complete[:last], text
	}
}

// textOf returns the text of a block, and reports whether it is one.
func textOf(block []byte) (string, bool) {
	var text textBlock
	if jsonlimit.Unmarshal(block, &text) != nil {
		return "", false
	}

	return text.Text, text.Type == runtimewire.PartialText
}

// storedMessage is an assistant event of stored blocks.
type storedMessage struct {
	Type            string            `json:"type"`
	UUID            string            `json:"uuid"`
	SessionID       string            `json:"session_id"`
	ParentToolUseID *string           `json:"parent_tool_use_id"`
	Message         storedContent     `json:"message"`
	Usage           runtimewire.Usage `json:"usage"`
}

type storedContent struct {
	Role       string            `json:"role"`
	Content    []json.RawMessage `json:"content"`
	Model      string            `json:"model"`
	StopReason string            `json:"stop_reason"`
}

// EventName implements [runtimewire.Payload].
func (*storedMessage) EventName() string { return "assistant" }

// message returns an event with the first blocks, usually all.
func (s *Stored) message(blocks []json.RawMessage) *storedMessage {
	n, size := 1, len(blocks[0])
	for n < len(blocks) && size+len(blocks[n]) < cmp.Or(s.maxBlocks, maxBlocksData) {
		size += len(blocks[n]) + 1
		n++
	}

	return &storedMessage{
		Type: "assistant", UUID: s.MessageID, SessionID: s.SessionID,
		Message: storedContent{Role: runvalue.RoleAssistant, Content: blocks[:n], Model: s.Model},
	}
}

// head returns the start of a text, for one partial message.
func head(text string) string {
	n := min(len(text), maxText)
	for n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}

	return text[:n]
}

// send queues an event.
func send(queue func(sse.Event) error, p runtimewire.Payload, id string) error {
	ev := sse.Event{ID: id}
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(p); err != nil {
		return fmt.Errorf("encode event: %w", err)
	}

	ev.Type, ev.Data = p.EventName(), bytes.TrimSuffix(data.Bytes(), []byte("\n"))
	return queue(ev)
}

// SendDone queues the last event of a stored answer.
func SendDone(stream *sse.Stream) error { return send(stream.Queue, &runtimewire.Done{}, endID) }

// SendEvents queues events of the hub.
func SendEvents(stream *sse.Stream, events ...runtimewire.Payload) error {
	for _, event := range events {
		if err := send(stream.Queue, event, ""); err != nil {
			return err
		}
	}

	return nil
}
