package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// Limits of a stored answer, in bytes.
const (
	maxAnswer     = 4 << 20
	maxToolOutput = 16 << 10 // of one tool result
	maxModel      = 200
	maxFailure    = 2000
)

// maxBlocks is the number of blocks of one message that are read: a runtime sends no more, and an
// event of 4 MiB has room for two million.
const maxBlocks = 1024

var errTooLong = errors.New("the answer is longer than 4 MiB")

// ending is how an answer ended.
type ending struct {
	Status  string
	Failure Failure
}

func failed(code api.Code, message string) ending {
	return ending{statusFailed, Failure{string(code), message}}
}

// transcript is the part of an answer that is stored, as of the last event.
type transcript struct {
	mu             sync.Mutex // guards the fields below
	blocks         []byte     // JSON of the complete blocks, separated by commas
	text           []byte     // of the complete text blocks
	pending        []byte     // the text of the message in progress
	count          int        // of blocks
	model          string
	runtimeSession string
	responded      bool // the model has: the runtime has stored the messages before
	usage          Usage
	end            *ending // nil in progress
	changed        bool    // since the last snapshot
	stored         int     // the size as of the last snapshot

	reserve func(bytes int) error
	held    int // bytes that are reserved
}

// size returns the number of bytes that are stored.
func (t *transcript) size() int { return len(t.blocks) + len(t.text) + len(t.pending) }

// note stores the part of an event that the history needs. Events that cannot be decoded are only
// forwarded. The error is errTooLong or errMemory.
func (t *transcript) note(ev sse.Event) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch ev.Type {
	case "partial_message":
		t.pending, t.changed, t.responded = appendPartial(t.pending, ev.Data), true, true
	case "assistant":
		t.responded = true
		t.assistant(ev.Data)
	case "tool_result":
		t.toolResult(ev.Data)
	case "system":
		t.system(ev.Data)
	case "result", "cancelled", "error":
		if t.end == nil {
			t.finish(ev)
		}
	}
	size := t.size()
	if size > maxAnswer {
		return errTooLong
	}
	// Text that will be stored exists twice for a while. Small amounts are reserved together.
	if want := 2 * size; want > t.held || want < t.held/4 {
		if err := t.reserve(want + want/4 - t.held); err != nil {
			return err
		}
		t.held = want + want/4
	}
	return nil
}

var (
	textPrefix = []byte(`{"type":"partial_message","partial":{"type":"text","text":"`)
	textSuffix = []byte(`"}}`)
)

// appendPartial appends the text of a partial message to dst. There is one for each token: a text
// without escapes needs no decoder.
func appendPartial(dst, data []byte) []byte {
	if inner, ok := bytes.CutPrefix(data, textPrefix); ok {
		if inner, ok = bytes.CutSuffix(inner, textSuffix); ok && bytes.IndexByte(inner, '\\') < 0 && bytes.IndexByte(inner, '"') < 0 {
			return append(dst, inner...)
		}
	}
	var p wire.PartialMessage
	if json.Unmarshal(data, &p) != nil || p.Partial.Type != wire.PartialText {
		return dst
	}
	return append(dst, p.Partial.Text...)
}

// The methods below need the mutex.

// assistant replaces the message in progress with the complete one. Those of subagents only count
// tokens.
func (t *transcript) assistant(data []byte) {
	var in struct {
		Parent  *string `json:"parent_tool_use_id"`
		Message struct {
			Content []json.RawMessage `json:"content"`
		} `json:"message"`
		Usage Usage `json:"usage"`
	}
	if json.Unmarshal(data, &in) != nil {
		return
	}
	t.usage, t.changed = t.usage.Add(in.Usage), true
	if in.Parent != nil {
		return
	}
	t.pending = nil
	var text strings.Builder
	for _, raw := range in.Message.Content[:min(len(in.Message.Content), maxBlocks)] {
		var block struct{ Type, Text string }
		if json.Unmarshal(raw, &block) != nil || block.Type == "" {
			continue
		}
		t.block(raw)
		if block.Type == "text" {
			text.WriteString(block.Text)
		}
	}
	if text.Len() > 0 {
		if len(t.text) > 0 {
			t.text = append(t.text, "\n\n"...)
		}
		t.text = append(t.text, text.String()...)
	}
}

func (t *transcript) block(raw []byte) {
	if len(t.blocks) > 0 {
		t.blocks = append(t.blocks, ',')
	}
	t.blocks = append(t.blocks, raw...)
	t.count++
}

// toolResultBlock is the block of a tool result, whose output is shortened.
type toolResultBlock struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	ToolName  string `json:"tool_name"`
	Output    string `json:"output"`
	IsError   bool   `json:"is_error"`
	Truncated bool   `json:"truncated"`
}

func (t *transcript) toolResult(data []byte) {
	var in wire.ToolResult
	if json.Unmarshal(data, &in) != nil || in.ParentToolUseID != nil {
		return
	}
	r := in.Result
	output, cut := excerpt.Ends(r.Output, maxToolOutput)
	block, err := json.Marshal(toolResultBlock{"tool_result", r.ToolUseID, r.ToolName, output, r.IsError, r.Truncated || cut})
	if err == nil {
		t.block(block)
		t.changed = true
	}
}

func (t *transcript) system(data []byte) {
	var in struct {
		Subtype   string `json:"subtype"`
		Model     string `json:"model"`
		SessionID string `json:"session_id"`
	}
	if json.Unmarshal(data, &in) != nil || in.Subtype != wire.SystemInit {
		return
	}
	t.model, t.changed = clean(excerpt.Head(in.Model, maxModel)), true
	if ids.Plain(in.SessionID, 128) {
		t.runtimeSession = in.SessionID
	}
}

// finish decodes the last event of a run before done.
func (t *transcript) finish(ev sse.Event) {
	payload, err := wire.DecodeEvent(ev.Type, ev.Data)
	if err != nil {
		return
	}
	switch p := payload.(type) {
	case *wire.Result:
		t.usage = p.Usage
		t.end = &ending{Status: statusCompleted}
		if p.IsError {
			t.end = failureOf(p.ErrorType, append(p.Errors, p.Subtype)[0])
		}
	case *wire.Cancelled:
		t.end = &ending{Status: statusCancelled}
	case *wire.Fault:
		t.end = failureOf(p.ErrorType, p.Error)
	}
}

func failureOf(code, message string) *ending {
	if code == "" {
		code = string(api.UpstreamFailed)
	}
	return &ending{statusFailed, Failure{clean(excerpt.Head(code, maxModel)), clean(excerpt.Head(message, maxFailure))}}
}

// ended returns how the run ended according to its events, or nil.
func (t *transcript) ended() *ending {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end
}

// snapshot returns the text and the JSON of the blocks if they should be stored: at first, and then
// when they have grown by a quarter, so that the number of bytes that are written is linear in the
// length of the answer.
func (t *transcript) snapshot() (text, content string, due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	size := t.size()
	if !t.changed || size < t.stored+t.stored/4 {
		return "", "", false
	}
	t.changed, t.stored = false, size
	text, content = t.current()
	return text, content, true
}

// unsaved makes the next snapshot due.
func (t *transcript) unsaved() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed, t.stored = true, 0
}

func (t *transcript) current() (text, content string) {
	pending := clean(string(t.pending))
	text = paragraphs(clean(string(t.text)), pending)
	if plain := t.count == 1 && len(pending) == 0 && bytes.Equal(t.blocks, textBlock(string(t.text))); t.count > 0 && !plain {
		content = clean(string(array(t.blocks, textBlock(pending))))
	}
	return text, content
}

// clean returns text that both databases can store.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
