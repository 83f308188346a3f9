package relay

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// Limits of a stored answer, in bytes.
const (
	maxAnswer     = 4 << 20
	maxToolOutput = 16 << 10 // of one tool result
	maxAside      = 1 << 20  // of the blocks of subagents and of system events; later ones are omitted
	maxModel      = 200
	maxFailure    = 2000
)

// maxBlocks is the number of blocks of one message that are read: a runtime sends no more, and an
// event of 4 MiB has room for two million.
const maxBlocks = 1024

var errTooLong = errors.New("the answer is longer than 4 MiB")

// transcript is the part of an answer that is stored, as of the last event.
type transcript struct {
	blocks         []byte // JSON of the complete blocks, separated by commas
	text           []byte // of the complete text blocks
	pending        []byte // the text of the message in progress
	count          int    // of blocks
	aside          int    // bytes of the blocks that are not of the agent itself
	model          string
	runtimeSession string
	responded      bool // the model has: the runtime has stored the messages before
	usage          runtimewire.Usage
	others         map[string]runtimewire.Usage // of subagents, by their models
	end            *Ending                      // nil in progress
	waits          []Call                       // of a run that ended waiting

	changed  bool // since the last snapshot
	stored   int  // the size as of the last snapshot
	reserved int  // bytes
}

// size returns the number of bytes that are stored.
func (t *transcript) size() int { return len(t.blocks) + len(t.text) + len(t.pending) }

// note adds the part of an event that is stored. Events that cannot be decoded are only forwarded.
// The error is errTooLong or that of reserve.
func (t *transcript) note(ev sse.Event, reserve func(size int) error) error {
	switch ev.Type {
	case "partial_message":
		t.pending, t.changed, t.responded = runtimewire.AppendPartialText(t.pending, ev.Data), true, true
	case "assistant":
		t.responded = true
		var blocks runtimewire.Blocks
		if blocks.Decode(ev.Data, maxBlocks) == nil {
			t.assistant(blocks)
		}
	case "result":
		var result runtimewire.Result
		if result.DecodeOutcome(ev.Data) == nil {
			t.payload(&result)
		}
	case "system", "tool_result", "cancelled", "error":
		if payload, err := runtimewire.DecodeEvent(ev.Type, ev.Data); err == nil {
			t.payload(payload)
		}
	}

	return t.check(reserve)
}

// noteTexts replaces the text of the message in progress with a longer one.
func (t *transcript) noteTexts(pending []byte, reserve func(size int) error) error {
	if len(pending) == len(t.pending) {
		return nil
	}

	t.pending, t.changed, t.responded = pending, true, true
	return t.check(reserve)
}

// check bounds the answer, and reserves memory for it.
func (t *transcript) check(reserve func(size int) error) error {
	size := t.size()
	if size > maxAnswer {
		return errTooLong
	}

	// Text that will be stored exists twice for a while. Small amounts are reserved together.
	if want := 2 * size; want > t.reserved || want < t.reserved/4 {
		if err := reserve(want + want/4 - t.reserved); err != nil {
			return err
		}

		t.reserved = want + want/4
	}

	return nil
}

// assistant replaces the message in progress with the complete one. That of a subagent is one
// block.
func (t *transcript) assistant(m runtimewire.Blocks) {
	t.usage, t.changed = t.usage.Add(m.Usage), true
	if m.ParentToolUseID != nil {
		t.addOther(m.Model, m.Usage)
		t.addAside(subagentBlock{Type: blockSubagentMessage, ParentToolUseID: *m.ParentToolUseID, Content: m.Blocks})
		return
	}

	t.pending = nil
	for _, block := range m.Blocks {
		t.block(block)
	}

	if m.Text != "" {
		if len(t.text) > 0 {
			t.text = append(t.text, "\n\n"...)
		}

		t.text = append(t.text, m.Text...)
	}
}

// addOther adds the usage of a message of a subagent, for a run whose end is not reported.
func (t *transcript) addOther(model string, used runtimewire.Usage) {
	all := maps.Clone(t.others)
	if all == nil {
		all = map[string]runtimewire.Usage{}
	}

	all[model] = all[model].Add(used)
	t.others = usage.OfModels(all)
}

// finish notes the end of the run, with its usage. A runtime of a former version does not report
// that of subagents.
func (t *transcript) finish(end *Ending, used runtimewire.Usage, others map[string]runtimewire.Usage) {
	t.end, t.usage = end, used
	if others != nil {
		t.others = usage.OfModels(others)
	}
}

func (t *transcript) block(raw []byte) {
	if len(t.blocks) > 0 {
		t.blocks = append(t.blocks, ',')
	}

	t.blocks = append(t.blocks, raw...)
	t.count++
}

// addAside adds a block that is not of the agent itself, while there is room for it.
func (t *transcript) addAside(block any) {
	raw, err := encodeBlock(block)
	if err != nil || t.aside+len(raw) > maxAside {
		return
	}

	t.aside += len(raw)
	t.block(raw)
	t.changed = true
}

// systemBlocks are the subtypes of the system events that are stored.
var systemBlocks = []string{runvalue.SystemPermissionDenied, runvalue.SystemAnswered, runvalue.SystemMCPStatus, runvalue.SystemWarning, runvalue.SystemCompactBoundary}

// system adds a system event.
func (t *transcript) system(p *runtimewire.System) {
	switch {
	case p.Subtype == runvalue.SystemInit && p.Init != nil:
		t.model, t.changed = Clean(excerpt.Head(p.Model, maxModel)), true
		if ids.Plain(p.SessionID, 128) {
			t.runtimeSession = p.SessionID
		}

	case p.Subtype == runvalue.SystemAnswered: // the run began with it
	case slices.Contains(systemBlocks, p.Subtype):
		t.addAside(systemBlock{
			Type: p.Subtype, ToolName: p.ToolName, ToolUseID: p.ToolUseID, Reason: excerpt.Head(p.Reason, maxFailure),
			Name: p.Name, Status: p.Status, Error: excerpt.Head(p.Error, maxFailure), Message: excerpt.Head(p.Message, maxFailure),
			CompactMetadata: p.CompactMetadata,
		})
	}
}

// toolResult adds the result of a tool call.
func (t *transcript) toolResult(p *runtimewire.ToolResult) {
	output, cut := excerpt.Ends(p.Result.Output, maxToolOutput)
	block := toolResultBlock{
		Type: blockToolResult, ToolUseID: p.Result.ToolUseID, ToolName: p.Result.ToolName, Output: output,
		IsError: p.Result.IsError, DurationMs: p.Result.DurationMs, Truncated: p.Result.Truncated || cut,
	}
	if p.ParentToolUseID != nil {
		block.ParentToolUseID = *p.ParentToolUseID
		t.addAside(block)
		return
	}

	if raw, err := encodeBlock(block); err == nil {
		t.block(raw)
		t.changed = true
	}
}

// payload adds an event that is neither text nor a message of the model.
func (t *transcript) payload(payload runtimewire.Payload) {
	switch p := payload.(type) {
	case *runtimewire.System:
		t.system(p)
	case *runtimewire.ToolResult:
		t.toolResult(p)
	}

	if t.end != nil {
		return
	}

	switch p := payload.(type) {
	case *runtimewire.Result:
		end := &Ending{Status: StatusCompleted}
		if p.Subtype == runvalue.ResultInput {
			if t.waits = callsOf(p.Pending); len(t.waits) > 0 {
				end.Status = StatusWaiting
			}
		}

		if p.Structured != nil {
			t.addAside(structuredBlock{Type: blockStructured, Value: object{p.Structured}})
		}

		if p.IsError {
			end = failureOf(p.ErrorType, append(p.Errors, p.Subtype)[0])
		}

		t.finish(end, p.Usage, p.Others)
	case *runtimewire.Cancelled:
		t.finish(&Ending{Status: StatusCancelled}, cmp.Or(p.Usage, t.usage), p.Others) // a runtime of a former version has no usage
	case *runtimewire.Fault:
		t.finish(failureOf(p.ErrorType, p.Error), cmp.Or(p.Usage, t.usage), p.Others)
	}
}

func failureOf(kind, message string) *Ending {
	reason := cmp.Or(wire.Code(Clean(excerpt.Head(kind, maxModel))), code.UpstreamFailed)
	end := failed(kindRun, reason, Clean(excerpt.Head(message, maxFailure)))
	return &end
}

// content is the stored form of an answer: the text, and a JSON array of the blocks, or "" for one
// block with the text.
type content struct{ text, blocks string }

func (c content) size() int { return len(c.text) + len(c.blocks) }

// Generated reports whether an answer has anything from a model, which a notice can label. Its text
// and blocks are stored ones.
func Generated(text, blocks string) bool {
	var all []struct {
		Type string `json:"type"`
	}
	if text != "" || blocks == "" || jsonlimit.Unmarshal([]byte(blocks), &all) != nil {
		return text != ""
	}

	for _, block := range all {
		if !slices.Contains(systemBlocks, block.Type) {
			return true
		}
	}

	return false
}

// due returns the content if it should be stored: at first, and then when it has grown by a
// quarter, so that the number of bytes that are written is linear in the length of the answer, or
// each time if it is followed.
func (t *transcript) due(followed bool) (content, bool) {
	size := t.size()
	if !t.changed || !followed && size < t.stored+t.stored/4 {
		return content{}, false
	}

	t.changed, t.stored = false, size
	return t.content(), true
}

// content returns the content as of the last event.
func (t *transcript) content() content {
	pending := Clean(string(t.pending))
	c := content{text: Paragraphs(Clean(string(t.text)), pending)}
	if plain := t.count == 1 && pending == "" && bytes.Equal(t.blocks, TextBlock(string(t.text))); t.count > 0 && !plain {
		c.blocks = Clean(string(Array(t.blocks, TextBlock(pending))))
	}

	return c
}

// Clean returns text that both databases can store.
func Clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// TextBlock returns the JSON of a block of text, or nil for an empty text.
func TextBlock(text string) []byte {
	if text == "" {
		return nil
	}

	block, _ := runtimewire.Block{Type: runtimewire.PartialText, Text: text}.MarshalJSON() // text has a JSON
	return block
}

// Array returns the JSON array of blocks, without the empty ones.
func Array(blocks ...[]byte) []byte {
	out := []byte{'['}
	for _, block := range blocks {
		if len(block) > 0 {
			if len(out) > 1 {
				out = append(out, ',')
			}

			out = append(out, block...)
		}
	}

	return append(out, ']')
}

// Paragraphs joins two texts with an empty line between them.
func Paragraphs(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}

	return a + "\n\n" + b
}
