// Package model defines the interface between a run and a language model: one method that takes the
// conversation and streams the response in parts.
//
// The packages below this one are adapters for real wire formats. Your own model implements [Model]
// in a few lines: it yields a [KindText] part for each increment of text, then one [KindStop] part.
//
//	func (echo) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
//		return func(yield func(model.Part, error) bool) {
//			last := req.Messages[len(req.Messages)-1]
//			if yield(model.Part{Kind: model.KindText, Text: last.Text()}, nil) {
//				yield(model.Part{Kind: model.KindStop, StopReason: model.StopEndTurn}, nil)
//			}
//		}
//	}
package model

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"
)

// Model is a language model. It is safe for concurrent use.
type Model interface {
	// Stream returns a sequence that calls the model once and yields the parts of the response in
	// order. A complete response ends with a part of kind [KindStop]. Otherwise the last element is
	// an error: an [*Error] for a failure of upstream, or context.Cause(ctx) if ctx ended. It wraps
	// [ErrUnsent] if nothing was sent, so that the call costs nothing. Nothing is retried.
	//
	// When the loop over the sequence ends, for any reason, the connection is closed and all
	// goroutines of the call have ended. req is not modified, and is not used after that. The
	// sequence can be used only once.
	Stream(ctx context.Context, req *Request) iter.Seq2[Part, error]
}

// ToolLimiter is a [Model] whose upstream rejects a request with too many tools.
type ToolLimiter interface {
	// MaxTools returns the number of tools that upstream accepts for the model with that name, 0 for
	// any number.
	MaxTools(name string) int
}

// Request is one call of a model.
type Request struct {
	Model    string // the upstream's name of the model
	System   string // system prompt, "" for none
	Messages []Message
	Tools    []Tool // offered tools, in an order that is stable from call to call

	MaxOutputTokens int      // 0: the adapter's default
	Temperature     *float64 // nil: upstream's default
	Thinking        Thinking // the zero value: off, or upstream's default

	// OutputSchema, if not nil, is the JSON Schema of an object, which the text of the response must
	// match, if it calls no tool. Only a model with the method
	// NativeOutput(schema json.RawMessage, tools bool) bool receives one: it reports whether upstream
	// accepts the schema, and does so next to tools if tools is set.
	OutputSchema json.RawMessage
	// ToolRequired means that the response must call a tool. A model may ignore it.
	ToolRequired bool

	// Alive, if not nil, is called whenever bytes arrive from upstream, even if they do not
	// complete a part, as with a keepalive. An idle timeout is measured from the last call of Alive
	// or the last part. Alive must be fast and must not block.
	Alive func()

	// Named, if not nil, is called with the name of the model that responds, when upstream has sent
	// it. The name is not bounded. It is called at most once, in the goroutine of Stream.
	Named func(model string)

	// Reserve, if not nil, is called before the adapter uses more memory for what it receives, with
	// the number of additional bytes, and with a negative number after it has released them. An
	// error ends the response. It is called in the goroutine of Stream, and the sum of all calls is
	// 0 when Stream returns.
	Reserve func(bytes int) error
}

// Thinking selects how a model thinks before its response. Adapters use the fields that their wire
// format has.
type Thinking struct {
	BudgetTokens int    // maximum number of tokens of extended thinking; 0: no budget
	Adaptive     bool   // the model decides how much it thinks; BudgetTokens is then not used
	Effort       string // a value of upstream, such as "high"; "": its default
}

// Tool is a tool that is offered to a model.
type Tool struct {
	Name        string
	Description string
	InputSchema json.RawMessage // a JSON Schema of type object
}

// Usage counts tokens. The names are those of the Anthropic Messages API: InputTokens does not
// include tokens that were read from or written to the prompt cache.
type Usage struct {
	InputTokens              int64
	OutputTokens             int64
	CacheCreationInputTokens int64
	CacheReadInputTokens     int64

	// ReasoningTokens are a part of OutputTokens. Only some upstreams count them.
	ReasoningTokens int64

	// Estimated reports that a part of the tokens is an estimate. A model sets it for totals that
	// are not the last ones, such as those with which a response of Anthropic starts.
	Estimated bool
}

// Stop reasons of the Anthropic Messages API. Adapters map those of other formats. An unknown
// reason is returned unchanged.
const (
	StopEndTurn   = "end_turn"
	StopToolUse   = "tool_use"
	StopMaxTokens = "max_tokens"
	StopRefusal   = "refusal"
	StopContext   = "model_context_window_exceeded" // a truncated response, as with StopMaxTokens
)

// PartKind is the kind of a [Part]. The comments name the fields that it uses.
type PartKind uint8

const (
	KindText      PartKind = iota + 1 // Text: an increment of the text of the response
	KindThinking                      // Text: an increment of the model's thinking
	KindSignature                     // Text: an increment of the signature of the thinking block at Index
	KindRedacted                      // Text: a complete redacted thinking block, opaque
	KindToolUse                       // ID, Name: a tool call begins
	KindToolInput                     // Text: an increment of the JSON input of the tool call at Index
	KindUsage                         // Usage: totals of the response so far; the latest one counts
	KindStop                          // StopReason: the response is complete

	KindThinkingField   // Name: Block.Field of the thinking block at Index
	KindThinkingDetails // Text: Block.Details of the thinking block at Index, complete
	KindToolExtra       // Text: Block.Extra of the tool call at Index, complete; the latest one counts
)

// Part is one streamed part of a response.
type Part struct {
	Kind PartKind

	// More reports whether the next part is already in memory. A reader that forwards parts may
	// delay its flush until then.
	More bool

	// Index identifies the content block. The blocks of a response are ordered by their first
	// parts, and parts of several blocks may interleave.
	Index int

	Text       string
	ID         string // of a tool call, as upstream sent it
	Name       string // of the tool
	StopReason string
	Usage      Usage
}

// Code classifies upstream failures. Its values are those of errorType in the runtime API:
//
//	connection       no connection, or it was lost during the response
//	rate_limit       429
//	overloaded       529, overloaded_error
//	server           any other 5xx, or a response that is not in the wire format
//	auth             401, 403
//	prompt_too_long  the conversation does not fit the context window
//	invalid_request  any other 4xx
//	unknown          upstream returned an error of an unknown kind
//	timeout          upstream sent nothing for too long
type Code string

// Error is a failure of the upstream.
type Error struct {
	Code       Code
	Status     int           // HTTP status of the response, 0 without one; 200 for an error in the stream
	Message    string        // one line that may be shown to a client: no key, no address
	RetryAfter time.Duration // the wait that upstream requests, 0 for none
	Err        error         // the cause, only for the log; may be nil
}

// Error returns the code and the message. The cause is available through errors.Unwrap.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

func (e *Error) Unwrap() error { return e.Err }
