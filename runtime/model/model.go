// Package model says what a language model is to a run: one method that takes the
// conversation so far and streams the answer in parts, as they come.
//
// Adapters for real wire formats stand in the packages below this one. A model of your own
// implements [Model] in a few lines: range over whatever makes the text and yield a
// [KindText] part for each increment, then one [KindStop] part.
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
	"iter"
)

// Model is an upstream that answers conversations. It is safe for concurrent use.
type Model interface {
	// Stream calls the model once, when the sequence is ranged over, and yields the answer's
	// parts in their order. A whole answer ends with a part of kind [KindStop]; anything else
	// ends with an error, which is the last thing yielded: an [*Error] for what upstream did,
	// context.Cause(ctx) when ctx ended. Nothing is retried.
	//
	// When the loop over the sequence has ended, for whatever reason, nothing of the call is
	// left: connections are closed, goroutines are gone. req is not changed, and not kept.
	// The sequence is for one use.
	Stream(ctx context.Context, req *Request) iter.Seq2[Part, error]
}

// Request is one call of a model.
type Request struct {
	Model    string // the upstream's name of the model
	System   string // system prompt, "" for none
	Messages []Message
	Tools    []Tool // offered tools, in an order that is stable from call to call

	MaxOutputTokens int      // 0: the adapter's default
	Temperature     *float64 // nil: upstream's default
	ThinkingBudget  int      // tokens for extended thinking, 0: off

	// Alive, when not nil, is called whenever anything arrives from upstream, also when it
	// makes no part (a keepalive, half an event). A caller that limits how long upstream may
	// be silent counts from the last call or part. It is cheap and never blocks.
	Alive func()
}

// Tool is a tool as it is offered to a model.
type Tool struct {
	Name        string
	Description string
	InputSchema json.RawMessage // a JSON Schema of type object
}

// Usage counts tokens. The names are those of the Anthropic Messages API: InputTokens does
// not include what was read from or written to the prompt cache.
type Usage struct {
	InputTokens              int64 `json:"input_tokens"`
	OutputTokens             int64 `json:"output_tokens"`
	CacheCreationInputTokens int64 `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int64 `json:"cache_read_input_tokens"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CacheCreationInputTokens += v.CacheCreationInputTokens
	u.CacheReadInputTokens += v.CacheReadInputTokens
	return u
}

// Stop reasons, in the words of the Anthropic Messages API; adapters of other formats
// translate. An unknown reason is passed on as upstream said it.
const (
	StopEndTurn   = "end_turn"
	StopToolUse   = "tool_use"
	StopMaxTokens = "max_tokens"
	StopSequence  = "stop_sequence"
	StopRefusal   = "refusal"
)
