package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/internal/toolschema"
	"github.com/seed93082962/agenthost/runtime/internal/collect"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// OutputError is returned if the output of a run does not match its schema, also after its repair.
type OutputError struct{ Reason string }

func (e *OutputError) Error() string { return "the output does not match outputSchema: " + e.Reason }

// OutputSchema is the schema of the output of runs. It is safe for concurrent use.
type OutputSchema struct {
	text   json.RawMessage
	schema *toolschema.Schema

	// from is the form with which a run begins: that of the last one, if upstream rejected another.
	from atomic.Int32
}

// CompileOutputSchema reads the schema of an output. Its error is for the author of the schema.
func CompileOutputSchema(text json.RawMessage) (*OutputSchema, error) {
	schema, err := toolschema.CompileOutput(text)
	if err != nil {
		return nil, err
	}

	return &OutputSchema{text: text, schema: schema}, nil
}

// Size returns the approximate number of bytes of the schema in memory.
func (s *OutputSchema) Size() int { return s.schema.Size() }

// form is how upstream receives the schema of an output. If it rejects one form, the next one is
// used: models differ in the forms and in the keywords that they accept. The output is validated in
// every form.
type form int32

const (
	formNative   form = iota // the text of the last response, which upstream binds to the schema
	formRequired             // the input of a call, and upstream requires calls
	formOffered              // the input of a call, which the system prompt asks for
)

// nativeOutput is a model whose upstream can bind the text of a response to a schema.
type nativeOutput interface {
	// NativeOutput reports whether upstream accepts the schema, and does so next to tools if a request
	// has some.
	NativeOutput(schema json.RawMessage, tools bool) bool
}

// outputTool is the name of the tool whose input is the output.
const outputTool = "StructuredOutput"

const (
	outputDescription = "Returns your response, as the input of this call. Call it once, as your last and only call, when everything else is done."
	outputPrompt      = "End your work with a call of the tool " + outputTool + ", whose input is your response to the user. Texts are not shown to the user."
	outputNotAlone    = "The response was not accepted, because other calls came with it. Call " + outputTool + " again, as the only call."
)

// maxOutput bounds the JSON of an output in bytes, so that an event has room for it and its text.
const maxOutput = 1 << 20

// maxOutputProblem bounds the reason why an output is not valid, which may have parts of it.
const maxOutputProblem = 2 << 10

// structuredOutput is the output of one run. It has no schema if it is any text.
type structuredOutput struct {
	*OutputSchema

	form     form
	repaired bool // the run, or one that it continues with answers, has used its repair

	// Of the present response: whether it has begun a call of the tool, and the index of its parts.
	begun bool
	index int
}

// schemaOf returns the schema of the output of a run, or nil: that of the agent, of the request, or
// of the run that waited, in this order.
func (e *Engine) schemaOf(in *Input) *OutputSchema {
	switch {
	case e.outputSchema != nil:
		return e.outputSchema
	case in.OutputSchema == nil && in.Answers != nil:
		return in.Answers.output
	}

	return in.OutputSchema
}

// chooseForm determines how upstream receives the schema of the output.
func (r *runState) chooseForm() {
	o := &r.structured
	if o.OutputSchema == nil {
		return
	}

	o.form = form(o.from.Load())
	native, ok := r.engine.cfg.Model.(nativeOutput)
	if o.form == formNative && (!ok || !native.NativeOutput(o.text, len(r.tools.offered) > 0)) {
		o.form = formRequired
	}

	if o.form != formNative {
		r.addOutputTool()
	}
}

// addOutputTool adds the tool whose input is the output. It is never executed, and needs no
// permission.
func (r *runState) addOutputTool() {
	e := &offeredTool{
		spec:   tool.Spec{Name: outputTool, Description: outputDescription, InputSchema: r.structured.text},
		schema: r.structured.schema, kind: kindOutput, label: outputTool,
	}
	all := &toolset{
		entries: maps.Clone(r.tools.entries), order: append([]string{outputTool}, r.tools.order...),
		leftOut: slices.Clip(r.tools.leftOut), instructions: r.tools.instructions + "\n\n" + outputPrompt,
	}
	all.entries[outputTool] = e
	all.offer(&r.engine.cfg)
	r.tools = all
}

// bind sets the form of the output in the request for a response, which may be the last one.
func (o *structuredOutput) bind(req *model.Request) {
	switch {
	case o.OutputSchema == nil:
	case o.form == formNative:
		req.OutputSchema = o.text
	default:
		req.ToolRequired = o.form == formRequired
	}
}

// lowerForm uses the next form of the output after upstream has rejected a request. It returns err
// if there is none, or if the request was not rejected for its fields.
func (r *runState) lowerForm(response *collect.Response, err error) error {
	o := &r.structured
	upstream, ok := errors.AsType[*model.Error](err)
	if o.OutputSchema == nil || o.form == formOffered || !ok || upstream.Code != runvalue.ErrorTypeInvalidRequest || len(response.Message.Content) > 0 {
		return err
	}

	r.engine.cfg.Logger.Warn("upstream rejected the form of the output, another one is used", "err", err, "run_id", r.in.RunID)
	if o.form++; o.form == formRequired {
		r.addOutputTool()
	}

	return nil
}

// takeOutput reports whether a response is meant to be the output, and why it is not valid, or "".
// A valid one becomes the text of the response, in every form.
func (r *runState) takeOutput(ctx context.Context, response *collect.Response) (final bool, problem string) {
	o := &r.structured
	calls := response.Message.ToolUses()
	called := len(calls) == 1 && calls[0].Name == outputTool
	limited := slices.Contains(incomplete, response.StopReason)
	switch {
	case o.OutputSchema == nil, response.StopReason == model.StopRefusal, len(calls) > 0 && !called && !limited:
		return false, ""
	}

	o.from.Store(int32(o.form)) // upstream accepts it
	text := response.Message.Text()
	if called {
		text = cmp.Or(calls[0].BadInput, string(calls[0].Input))
	}

	inTime, cancel := context.WithTimeoutCause(ctx, r.engine.cfg.ToolTimeout, errToolTimeout)
	defer cancel()
	value, err := o.schema.Output(inTime, text)
	switch {
	case limited && (err != nil || len(calls) > 0 && !called):
		err = fmt.Errorf("it is incomplete, because it reached a limit (%s)", response.StopReason)
	case err == nil && len(value) > maxOutput:
		err = fmt.Errorf("it has more than %d bytes", maxOutput)
	}

	if err != nil {
		return true, excerpt.Shorten(err.Error(), maxOutputProblem)
	}

	r.outcome.Structured, r.outcome.Text = value, string(value)
	r.outcome.StopReason, response.StopReason = model.StopEndTurn, model.StopEndTurn
	content := slices.DeleteFunc(response.Message.Content, func(b model.Block) bool {
		return b.Type == model.BlockText || b.Type == model.BlockToolUse
	})
	response.Message.Content = append(content, model.Block{Type: model.BlockText, Text: string(value)})
	return true, ""
}

// repairOutput requests another response in place of an output that is not valid, once in a run.
func (r *runState) repairOutput(ctx context.Context, calls []model.Block, problem string) error {
	if r.structured.repaired || r.outcome.NumTurns >= r.maxTurns {
		return &OutputError{Reason: problem}
	}

	r.structured.repaired = true
	text := "Your response does not match the required schema: " + problem + "."
	message := model.Message{Role: model.RoleUser}
	for i := range calls {
		res := result{output: interrupted, isError: true}
		if calls[i].Name == outputTool {
			res.output = text + " Call " + outputTool + " again."
		}

		message.Content = append(message.Content, model.Block{Type: model.BlockToolResult, ID: calls[i].ID, Text: res.output, IsError: true})
		r.emitResult(&calls[i], res)
	}

	if len(calls) == 0 {
		message = model.UserText(text + r.structured.reminder())
	}

	return r.appendMessage(ctx, message)
}

// reminder says how to respond again. A server may have ignored the native form without an error,
// so that the model has not seen the schema.
func (o *structuredOutput) reminder() string {
	if o.form != formNative {
		return " Call " + outputTool + "."
	}

	return " Respond again, with nothing but JSON that matches this schema:\n" + string(o.text)
}

// emitOutputPart emits the input of the tool of the output as the text that it becomes. It reports
// whether the part belongs to that tool.
func (r *runState) emitOutputPart(part *model.Part) bool {
	switch {
	case r.structured.OutputSchema == nil:
		return false
	case part.Kind == model.KindToolUse && part.Name == outputTool:
		r.structured.index = part.Index
		r.structured.begun = true
		return true
	case part.Kind == model.KindToolInput && r.structured.begun && part.Index == r.structured.index:
		r.emitIncrement(wire.PartialText, part.Text)
		return true
	}

	return false
}
