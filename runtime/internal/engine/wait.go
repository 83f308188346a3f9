package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/internal/toolschema"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// wait is what a session waits for, as it is stored: all calls of the last response that have no
// result, in their order.
type wait struct {
	Calls []waitingCall `json:"calls"`
	Since time.Time     `json:"since"`
	Turns int           `json:"turns,omitempty"` // of the run, and of those that it continued with answers

	OutputSchema json.RawMessage `json:"outputSchema,omitempty"` // of the request
	Repaired     bool            `json:"repaired,omitempty"`     // the output was, and is not again

	// Of the span of the run that waited, in hexadecimal.
	TraceID string `json:"traceId,omitempty"`
	SpanID  string `json:"spanId,omitempty"`
}

// waitingCall is a call without a result.
type waitingCall struct {
	ToolUseID string `json:"toolUseId"`

	// Pending is nil if the call needs no answer now. Its stored form has no input, which is that of
	// the call.
	Pending *wire.Pending `json:"pending,omitempty"`

	// Form is the input that was judged, if it differs from that of the call.
	Form json.RawMessage `json:"form,omitempty"`

	// Server identifies the definition of the MCP server of an approved call, or is "".
	Server string `json:"server,omitempty"`

	// Of a question: its state. The call was permitted with Form, if Approved by an approval.
	Question *tool.Question `json:"question,omitempty"`
	Approved bool           `json:"approved,omitempty"`

	block  *model.Block // in the last response
	reason error        // why it needs an approval
}

// form returns the input that was judged.
func (w *waitingCall) form() json.RawMessage {
	if w.Form != nil {
		return w.Form
	}

	return w.block.Input
}

// mayRun reports whether the call may run with its answer, if the policy does not permit it for a
// reason.
func (w *waitingCall) mayRun(reason error) bool {
	if reason == nil {
		return true
	}

	return mayApprove(reason) && !errors.Is(reason, permission.ErrNotListed) && (w.Question == nil || w.Approved)
}

// judgement is what was decided about a call before it runs.
type judgement struct {
	form     json.RawMessage // Approve has allowed this input, nil for none
	rejected *result         // the call has this result
	waits    *waitingCall    // the call needs an answer
}

var (
	errTooLongToShow = fmt.Errorf("the call is too long to be shown to a person, who would have to approve it: "+
		"the limit is %d MiB of JSON, use several smaller calls", runvalue.MaxPendingBytes>>20)
	errNotText = errors.New("the call cannot be shown to a person, who would have to approve it: it has bytes that are not UTF-8")
)

// pendingCopies is how often what waits is in memory, at most: as text, as the stored line, and in
// the result with its event.
const pendingCopies = 4

// pendingLimit bounds the values of what waits. A client accepts twice as many in one event.
var pendingLimit = jsonlimit.Limit{Values: 1 << 17, Depth: 1000}

// previewer is a tool that states what a call executes, in place of its input.
type previewer interface {
	// Preview returns the text. The error is for the model.
	Preview(ctx context.Context, input json.RawMessage) (string, error)
}

// accepts reports whether the caller of the run can answer a kind.
func (r *runState) accepts(kind string) bool { return slices.Contains(r.in.Inputs, kind) }

// mayApprove reports whether a person may permit a call that the policy does not allow for this
// reason.
func mayApprove(reason error) bool {
	return !errors.Is(reason, permission.ErrDenied) && !errors.Is(reason, permission.ErrPlan) && !errors.Is(reason, permission.ErrLongPath)
}

// waits judges a call before it runs, and returns it if it needs an answer. It judges each call
// once.
func (r *runState) waits(ctx context.Context, block *model.Block) *waitingCall {
	if j := r.judged[block.ID]; j != nil {
		return j.waits
	}

	e := r.tools.entries[block.Name]
	_, answered := r.answers[block.ID]
	if len(r.in.Inputs) == 0 || answered || e == nil || e.kind == kindOutput || block.BadInput != "" {
		return nil
	}

	w := r.judge(ctx, e, block)
	if w != nil {
		r.judged[block.ID] = &judgement{waits: w}
	}

	return w
}

// judge returns a call that needs an answer, or nil. The result of a call that cannot be executed
// is that of reject.
func (r *runState) judge(ctx context.Context, e *offeredTool, block *model.Block) *waitingCall {
	defer func() {
		if p := recover(); p != nil {
			r.logPanic("check", block.Name, p)
			r.reject(block, result{output: "The call could not be checked because of an internal error.", isError: true})
		}
	}()
	limit := r.engine.cfg.ToolTimeout
	inTime, cancel := context.WithTimeoutCause(ctx, limit, errToolTimeout)
	defer cancel()
	form, reason := r.engine.cfg.Policy.Check(inTime, e.permissionTool(), block.Input)
	_, client := e.Tool.(clientTool)
	switch {
	case inTime.Err() != nil, !client && !r.accepts(runvalue.InputApproval), reason == nil && !client, !mayApprove(reason), errors.Is(reason, permission.ErrNotListed):
		return nil // its check decides
	case e.schema != nil:
		switch err := e.schema.Validate(inTime, form); {
		case inTime.Err() != nil:
			r.reject(block, r.timeoutResult(result{}, limit))
			return nil
		case err != nil:
			r.reject(block, r.mismatch(e, err))
			return nil
		}
	}

	w := &waitingCall{ToolUseID: block.ID, block: block, Pending: &wire.Pending{
		ID: ids.New(), Kind: runvalue.InputClientTool, ToolName: block.Name, ToolUseID: block.ID, Input: block.Input,
	}}
	if client {
		return r.showable(w)
	}

	call := tool.Call{ID: block.ID, Input: form, RunID: r.in.RunID, SessionID: r.in.Session.ID()}
	if r.approved(ctx, block.Name, call, reason) {
		r.judged[block.ID] = &judgement{form: form}
		return nil
	}

	text, err := preview(ctx, e, form) // Approve may have taken any time
	if err != nil {
		r.reject(block, r.limitResult(result{output: err.Error(), isError: true}))
		return nil
	}

	w.reason, w.Server = reason, r.engine.definition(block.Name)
	w.Pending.Kind = runvalue.InputApproval
	w.Pending.Executed, w.Pending.Reason = text, reason.Error()
	if string(form) != string(block.Input) {
		w.Form = form
	}

	return r.showable(w)
}

// preview returns what a call executes.
func preview(ctx context.Context, e *offeredTool, form json.RawMessage) (string, error) {
	if p, ok := e.Tool.(previewer); ok {
		return p.Preview(ctx, form)
	}

	text, err := pendingLimit.Compact(form)
	return string(text), err
}

// reject sets the result of a call that is not run.
func (r *runState) reject(block *model.Block, res result) {
	r.judged[block.ID] = &judgement{rejected: &res}
}

// showable returns a call, or nil if a person could not read all of it: then it is denied.
func (r *runState) showable(w *waitingCall) *waitingCall {
	err := errNotText
	size := 0
	if utf8.ValidString(w.Pending.Executed) {
		size, _, err = sizeOf(w.Pending)
	}

	if err == nil {
		if r.results.add(pendingCopies*size) == nil {
			return w
		}

		r.reject(w.block, result{output: noRoom, isError: true})
		return nil
	}

	res := refusal(fmt.Sprintf("Permission to use %s was denied: %v.", w.block.Name, err))
	res.denied = err
	r.reject(w.block, res)
	return nil
}

// shown is what an event has of one wait. What it has no room for waits later.
type shown struct {
	calls, bytes, values int
	full                 bool
}

// fits adds a call, and reports whether there was room for it.
func (s *shown) fits(p *wire.Pending) bool {
	size, values, err := sizeOf(p)
	s.calls, s.bytes, s.values = s.calls+1, s.bytes+size, s.values+values
	s.full = s.full || err != nil || s.calls > runvalue.MaxPending || s.bytes > runvalue.MaxPendingBytes || s.values > pendingLimit.Values
	return !s.full
}

// encode returns JSON without escapes for HTML, as events have it.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// sizeOf returns the bytes and the values of the JSON of what waits, and an error if an event has
// no room for it.
func sizeOf(p *wire.Pending) (size, values int, err error) {
	text, err := encode(p)
	if err == nil {
		values, err = pendingLimit.Count(text)
	}

	if err != nil || len(text) > runvalue.MaxPendingBytes {
		return 0, 0, errTooLongToShow
	}

	return len(text), values, nil
}

// wait ends the run waiting for the calls, of which the first ones are known to need an answer. It
// stores those that need one, as far as an event has room for them. The others follow when these
// have their results.
func (r *runState) wait(ctx context.Context, known []waitingCall, rest []model.Block) error {
	stored := wait{Since: time.Now().UTC(), Turns: r.outcome.FormerTurns + r.outcome.NumTurns, Repaired: r.structured.repaired}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		stored.TraceID, stored.SpanID = span.TraceID().String(), span.SpanID().String()
	}

	if r.structured.OutputSchema != nil && r.engine.outputSchema == nil {
		stored.OutputSchema = r.structured.text
	}

	for i := range len(known) + len(rest) {
		var call waitingCall
		if i < len(known) {
			call = known[i]
		} else {
			block := &rest[i-len(known)]
			call = waitingCall{ToolUseID: block.ID, block: block}
			if next := r.waits(ctx, block); next != nil {
				call = *next
			}
		}

		if call.Pending != nil && call.Question == nil && !r.shown.fits(call.Pending) {
			call.Pending, call.Form, call.Server = nil, nil, ""
		}

		if call.Pending != nil {
			r.announce(&call)
			r.outcome.Pending = append(r.outcome.Pending, *call.Pending)
			short := *call.Pending
			short.Input = nil
			call.Pending = &short
		}

		stored.Calls = append(stored.Calls, call)
	}

	text, err := encode(stored)
	if err == nil {
		err = r.in.Session.SetWaiting(context.WithoutCancel(ctx), text)
	}

	if err != nil {
		return fmt.Errorf("store what the session waits for: %w", err)
	}

	r.outcome.StopReason = runvalue.ResultInput
	return nil
}

// announce emits that a call waits for an approval, and counts what waits.
func (r *runState) announce(w *waitingCall) {
	r.engine.metrics.waitFor(w.Pending.Kind)
	if w.Pending.Kind != runvalue.InputApproval {
		return
	}

	setting, rule := r.engine.cfg.Policy.Source(w.reason, r.tools.entries[w.block.Name].permissionTool(), w.block.Input)
	r.out.Emit(&wire.System{
		Type: "system", Subtype: runvalue.SystemPermissionRequired, ID: w.Pending.ID,
		ToolName: w.block.Name, ToolUseID: w.block.ID, Reason: w.Pending.Reason, Source: setting, Rule: rule,
	})
}

// asks returns a call whose result is a question, or an error if a person cannot be shown it.
func asks(block *model.Block, res result) (waitingCall, error) {
	q, form := res.question, res.form
	stored := *q
	stored.Action, stored.Content = "", nil
	w := waitingCall{ToolUseID: block.ID, block: block, Question: &stored, Approved: res.approved, Pending: &wire.Pending{
		ID: ids.New(), Kind: runvalue.InputQuestion, ToolName: block.Name, ToolUseID: block.ID, Input: block.Input,
		Reason: q.Message, Schema: q.Schema, URL: q.URL, Server: q.Server,
	}}
	if string(form) != string(block.Input) {
		w.Form = form
	}

	_, _, err := sizeOf(w.Pending)
	switch {
	case err != nil:
	case len(q.State) > runvalue.MaxPendingBytes:
		err = errTooLongToShow
	case q.Schema != nil:
		_, err = new(toolschema.Budget).Compile(q.Schema)
	}

	return w, err
}
