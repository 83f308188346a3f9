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

// Step is one step of a [Stream]. Waiting steps at the beginning are executed before the response
// header is sent.
type Step struct {
	kind  kind
	texts []string
	id    string
	name  string
	usage model.Usage
	wait  time.Duration
	gate  <-chan struct{}
}

// Text sends increments of text, one event each. Consecutive Text steps, with or without waiting
// steps between them, belong to one content block.
func Text(increments ...string) Step { return Step{kind: kindText, texts: increments} }

// Thinking sends increments of thinking, one event each; as reasoning_content to OpenAI clients.
func Thinking(increments ...string) Step { return Step{kind: kindThinking, texts: increments} }

// Signature sends increments of the signature of the thinking before it. It sends nothing to OpenAI
// clients.
func Signature(increments ...string) Step { return Step{kind: kindSignature, texts: increments} }

// Redacted sends a block of encrypted thinking. It sends nothing to OpenAI clients.
func Redacted(data string) Step { return Step{kind: kindRedacted, texts: []string{data}} }

// ToolCall begins a tool call and sends its input in the given fragments of JSON, one event each.
func ToolCall(id, name string, fragments ...string) Step {
	return Step{kind: kindToolCall, id: id, name: name, texts: fragments}
}

// ToolInput sends more fragments of the preceding [ToolCall], for example after a wait.
func ToolInput(fragments ...string) Step { return Step{kind: kindToolInput, texts: fragments} }

// Usage sets the token counts of the response. Defaults to 10 in and 5 out. OpenAI has no count for
// cache writes: they are part of the prompt tokens.
func Usage(u model.Usage) Step { return Step{kind: kindUsage, usage: u} }

// Stop ends the response with a stop reason of package model. A response without it ends after its
// last step, with tool_use if a tool was called, else with end_turn.
func Stop(reason string) Step { return Step{kind: kindStop, name: reason} }

// Ping sends a keepalive: an event for Anthropic, a comment for OpenAI.
func Ping() Step { return Step{kind: kindPing} }

// Error sends an error in mid-stream and ends the reply. The type is one of Anthropic's, such as
// overloaded_error or api_error; for OpenAI it is replaced by its counterpart, if there is one.
func Error(errorType string) Step { return Step{kind: kindError, name: errorType} }

// Verbatim sends bytes unchanged, for streams that no vendor should send: a damaged event, an
// unknown event, a line without end.
func Verbatim(s string) Step { return Step{kind: kindVerbatim, texts: []string{s}} }

// Pace sets the wait before each later increment. 0 disables it.
func Pace(d time.Duration) Step { return Step{kind: kindPace, wait: d} }

// Wait sends nothing for a while.
func Wait(d time.Duration) Step { return Step{kind: kindWait, wait: d} }

// Gate sends nothing until c is closed or yields a value.
func Gate(c <-chan struct{}) Step { return Step{kind: kindGate, gate: c} }

// Hang sends nothing more until the client disconnects.
func Hang() Step { return Step{kind: kindHang} }

// Drop closes the connection in mid-stream: the client sees an unexpected end of the body.
func Drop() Step { return Step{kind: kindDrop} }

// Cut ends the body without an error, but before the end of the response.
func Cut() Step { return Step{kind: kindCut} }
