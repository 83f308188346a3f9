package engine

import (
	"context"
	"errors"
	"time"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// stopGrace is how long a tool whose time is over gets to stop before the run goes on without
// it. The run does not end before the tool has.
const stopGrace = 5 * time.Second

// cancelGrace is how long a tool gets to give its result when the run has been cancelled.
const cancelGrace = time.Second

// maxParallel bounds how many calls of one answer run side by side.
const maxParallel = 16

var errToolTimeout = errors.New("tool call took too long")

// result is what became of one call.
type result struct {
	output    string
	isError   bool
	truncated bool
	took      time.Duration
	denied    string // why the call was refused

	// What the subagent that was called has added to the run.
	usage   wire.Usage
	denials []wire.PermissionDenial
}

// update is what a call tells while its batch runs: an event of a subagent, or that it has ended.
type update struct {
	index int
	event *wire.Event // nil: the call has ended
	result
}

// runTools runs the calls of one answer and yields an event as each ends. Neighbouring calls to
// read-only tools run side by side, the others in their order. The message it returns has a
// result for each call, in the order of the calls, also when there is an error.
func (r *Run) runTools(ctx context.Context, calls []model.Block, yield func(wire.Event) bool) (model.Message, error) {
	message := model.Message{Role: model.RoleUser, Content: make([]model.Block, len(calls))}
	for i := range calls {
		message.Content[i] = model.Block{Type: model.BlockToolResult, ID: calls[i].ID, Text: interrupted, IsError: true}
	}
	for from := 0; from < len(calls); {
		to := from + 1
		for r.readOnly(&calls[from]) && to < len(calls) && r.readOnly(&calls[to]) {
			to++
		}
		err := r.batch(ctx, calls[from:to], func(i int, res result) {
			b := &message.Content[from+i]
			b.Text, b.IsError = res.output, res.isError
		}, yield)
		if err != nil {
			return message, err
		}
		from = to
	}
	return message, nil
}

func (r *Run) readOnly(call *model.Block) bool {
	e := r.tools.entries[call.Name]
	return e != nil && e.spec.ReadOnly
}

// batch runs the calls side by side, keeps their results as they come and yields their events.
// When ctx ends it waits for them, and keeps the results that are none of its end.
func (r *Run) batch(ctx context.Context, calls []model.Block, keep func(int, result), yield func(wire.Event) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	updates := make(chan update, len(calls))
	places := make(chan struct{}, maxParallel)
	for i := range calls {
		go func() {
			places <- struct{}{}
			defer func() { <-places }()
			begin := time.Now()
			res := r.attempt(ctx, &calls[i], func(ev wire.Event) {
				select {
				case updates <- update{index: i, event: &ev}:
				case <-ctx.Done(): // nobody listens any more
				}
			})
			res.took = time.Since(begin)
			updates <- update{index: i, result: res}
		}()
	}
	stopped := false
	yield = once(yield, &stopped, cancel)
	for left := len(calls); left > 0; {
		u := <-updates
		over := stopped || ctx.Err() != nil
		switch {
		case u.event != nil:
			if !over {
				yield(*u.event)
			}
			continue
		case !over:
			keep(u.index, u.result)
			r.tell(&calls[u.index], u.result, yield)
		case !u.isError:
			keep(u.index, u.result)
		}
		r.outcome.Usage = r.outcome.Usage.Add(u.usage)
		left--
	}
	if stopped {
		return errStopped
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// once makes a yield that is not called again after it has answered false, and then cancels.
func once(yield func(wire.Event) bool, stopped *bool, cancel func()) func(wire.Event) bool {
	return func(ev wire.Event) bool {
		if !*stopped && !yield(ev) {
			*stopped = true
			cancel()
		}
		return !*stopped
	}
}

// tell yields the events of one ended call.
func (r *Run) tell(call *model.Block, res result, yield func(wire.Event) bool) bool {
	r.outcome.Denials = append(r.outcome.Denials, res.denials...)
	if res.denied != "" {
		denial := wire.PermissionDenial{ToolName: call.Name, ToolUseID: call.ID, Reason: res.denied}
		r.outcome.Denials = append(r.outcome.Denials, denial)
		if !yield(wire.Event{More: true, Payload: &wire.System{
			Type: "system", Subtype: wire.SystemPermissionDenied,
			ToolName: denial.ToolName, ToolUseID: denial.ToolUseID, Reason: denial.Reason,
		}}) {
			return false
		}
	}
	return yield(wire.Event{Payload: &wire.ToolResult{Type: "tool_result", Result: wire.ToolResultDetail{
		ToolUseID: call.ID, ToolName: call.Name, Output: res.output, IsError: res.isError,
		DurationMs: res.took.Milliseconds(), Truncated: res.truncated,
	}}})
}
