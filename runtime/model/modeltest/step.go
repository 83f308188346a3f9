package modeltest

import (
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
)

type kind uint8

const (
	kindText kind = iota + 1
	kindThinking
	kindSignature
	kindRedacted
	kindToolCall
	kindToolInput
	kindUsage
	kindStop
	kindPing
	kindError
	kindVerbatim
	kindPace
	kindWait
	kindGate
	kindHang
	kindDrop
	kindCut
)

// Step is one thing that happens in a [Stream]. Waiting steps that stand first happen before
// the response header is sent.
type Step struct {
	kind  kind
	texts []string
	id    string
	name  string
	usage model.Usage
	wait  time.Duration
	gate  <-chan struct{}
}

// Text sends increments of text, one event each. A Text that follows another one, waiting
// steps aside, goes on with the same content block.
func Text(increments ...string) Step { return Step{kind: kindText, texts: increments} }

// Thinking sends increments of thinking, one event each; as reasoning_content to OpenAI clients.
func Thinking(increments ...string) Step { return Step{kind: kindThinking, texts: increments} }

// Signature sends increments of the signature of the thinking before it. OpenAI has none: there
// it sends nothing.
func Signature(increments ...string) Step { return Step{kind: kindSignature, texts: increments} }

// Redacted sends a block of encrypted thinking. OpenAI has none: there it sends nothing.
func Redacted(data string) Step { return Step{kind: kindRedacted, texts: []string{data}} }

// ToolCall begins a tool call and sends its input in the given fragments of JSON, one event each.
func ToolCall(id, name string, fragments ...string) Step {
	return Step{kind: kindToolCall, id: id, name: name, texts: fragments}
}

// ToolInput sends further fragments for the [ToolCall] before it, after a wait between them.
func ToolInput(fragments ...string) Step { return Step{kind: kindToolInput, texts: fragments} }

// Usage sets the token counts that the answer tells; 10 in and 5 out without it. OpenAI knows
// no count for cache writes: they are part of the prompt's tokens there.
func Usage(u model.Usage) Step { return Step{kind: kindUsage, usage: u} }

// Stop ends the answer, for a reason given in the words of [model.StopEndTurn] and its like.
// An answer without it ends after its last step, with tool_use if a tool was called, else end_turn.
func Stop(reason string) Step { return Step{kind: kindStop, name: reason} }

// Ping sends a keepalive: an event for Anthropic, a comment for OpenAI.
func Ping() Step { return Step{kind: kindPing} }

// Error sends an error in mid-stream and ends the reply. The type is one of Anthropic's, such as
// overloaded_error or api_error; for OpenAI it is translated where there is a counterpart.
func Error(errorType string) Step { return Step{kind: kindError, name: errorType} }

// Verbatim sends bytes as they are, for what no vendor should send: a broken event, an unknown
// one, a line without end.
func Verbatim(s string) Step { return Step{kind: kindVerbatim, texts: []string{s}} }

// Pace waits before each increment from here on; 0 ends that.
func Pace(d time.Duration) Step { return Step{kind: kindPace, wait: d} }

// Wait sends nothing for a while.
func Wait(d time.Duration) Step { return Step{kind: kindWait, wait: d} }

// Gate sends nothing until c is closed or yields a value.
func Gate(c <-chan struct{}) Step { return Step{kind: kindGate, gate: c} }

// Hang sends nothing more until the client goes away.
func Hang() Step { return Step{kind: kindHang} }

// Drop closes the connection in mid-stream: the client sees an unexpected end of the body.
func Drop() Step { return Step{kind: kindDrop} }

// Cut ends the body in good order but without the end of the answer.
func Cut() Step { return Step{kind: kindCut} }
