// Package tool says what a tool is to a run: a name, a description and a JSON Schema that the
// model sees, and a function that answers a call with text.
package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Tool is something a model may call. It is safe for concurrent use.
type Tool interface {
	Spec() Spec

	// Call runs one call. When ctx ends it stops what it does and returns; whatever it
	// started is gone when it has returned. An error is told to the model as the result of
	// the call, so its text must be fit for that; a Result with IsError does the same.
	Call(ctx context.Context, call Call) (Result, error)
}

// Timed is a Tool whose calls may say how long they want to take.
type Timed interface {
	Tool

	// Timeout answers how long the call with this input may take, where limit is what the
	// runtime gives a call that does not say. Input may be anything.
	Timeout(input json.RawMessage, limit time.Duration) time.Duration
}

// Spec is how a tool is offered.
type Spec struct {
	Name        string // ^[A-Za-z0-9_-]{1,64}$: the set that every upstream accepts
	Description string
	InputSchema json.RawMessage // JSON Schema of type object; nil: an object with anything in it

	// ReadOnly tools change nothing. Calls of one answer to read-only tools run side by side,
	// and they need no permission.
	ReadOnly bool
}

// Call is one call of a tool.
type Call struct {
	ID        string          // of this call, as the model named it
	Input     json.RawMessage // always a JSON object
	RunID     string
	SessionID string
}

// Result is what a tool answers.
type Result struct {
	Output    string
	IsError   bool
	Truncated bool // Output is not all there was, and says so
}

// New makes a Tool of a function.
func New(spec Spec, fn func(ctx context.Context, call Call) (Result, error)) Tool {
	return funcTool{spec, fn}
}

type funcTool struct {
	spec Spec
	fn   func(ctx context.Context, call Call) (Result, error)
}

func (t funcTool) Spec() Spec { return t.spec }

func (t funcTool) Call(ctx context.Context, call Call) (Result, error) { return t.fn(ctx, call) }

// Func makes a Tool of a function over a typed input. Input that does not fit In is told to the
// model as an error, and so is an error of fn.
func Func[In any](spec Spec, fn func(ctx context.Context, in In) (string, error)) Tool {
	return New(spec, func(ctx context.Context, call Call) (Result, error) {
		var in In
		if err := json.Unmarshal(call.Input, &in); err != nil {
			if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // without the names of Go types, which say nothing to a model
				err = fmt.Errorf("%s cannot be %s", cmp.Or(wrong.Field, "it"), wrong.Value)
			}
			return Result{}, fmt.Errorf("the input does not fit: %w", err)
		}
		output, err := fn(ctx, in)
		return Result{Output: output}, err
	})
}
