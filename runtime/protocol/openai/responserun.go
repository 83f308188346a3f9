package openai

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// responseRun is the response to one request, and its run.
type responseRun struct {
	*exchange

	req    *responsesRequest
	input  input
	before conversation         // up to a previous response that is not stored
	open   func() (sink, error) // called when the run begins; nil without a stream
	output output
}

// execute executes the run, and deletes what is not to be stored.
func (a *responseRun) execute(ctx context.Context) error {
	err := a.run(ctx)
	if !a.req.stored() {
		a.forget(ctx)
	}

	return err
}

// run executes the run: in the session of the previous response if that is its last one, and
// otherwise in a new session with the conversation up to it. Results and decisions without a
// previous response continue the session that waits for them.
func (a *responseRun) run(ctx context.Context) error {
	run := wire.RunRequest{Stream: wire.StreamOff, Metadata: a.req.Metadata, ClientTools: a.req.clientTools()}
	run.OutputSchema, _ = a.req.outputSchema() // which check has accepted
	if a.req.Stream {
		run.Stream = wire.StreamRaw
	}

	if len(run.ClientTools) > 0 {
		run.Inputs = append(run.Inputs, runvalue.InputClientTool)
	}

	if a.req.stored() {
		run.Inputs = append(run.Inputs, runvalue.InputApproval)
	}

	if a.req.PreviousResponseID == "" || a.before != nil {
		if len(a.input.answers) > 0 {
			if err := a.resume(ctx, a.input.session, run); a.runID != "" || !isTaken(err) {
				return err
			}
		}

		if a.input.orphan != "" {
			return a.noCall()
		}

		return a.start(ctx, run, a.before)
	}

	previous, ok := parseResponseID(a.req.PreviousResponseID)
	if !ok {
		return a.noPrevious()
	}

	if a.input.orphan != "" && a.input.session != previous.session {
		return a.noCall()
	}

	done, err := a.follow(ctx, previous, run)
	if done {
		return err
	}

	talk, err := a.conversationUntil(ctx, previous)
	if err != nil {
		return err
	}

	return a.start(ctx, run, talk)
}

// start executes the run in a new session with a conversation, and the input.
func (a *responseRun) start(ctx context.Context, run wire.RunRequest, before conversation) error {
	talk := a.with(before)
	history, last, err := talk.split("input")
	if err != nil {
		return err
	}

	run.History, run.Message, run.Content = history, last.Content, last.Parts

	stored := len(run.Inputs) > 0
	switch {
	case !a.s.cfg.Retains:
		run.Store = &stored
	case run.Store == nil:
		run.Store = a.req.Store
	}

	return a.receive(a.s.cfg.Host.Run(ctx, a.agentID, run), a.handle)
}

// with returns a conversation and the input.
func (a *responseRun) with(before conversation) conversation {
	talk := slices.Clone(before)
	for _, turn := range a.input.talk {
		talk.add(turn.Role, turn.Content, turn.Parts...)
	}

	return talk
}

// resume executes the run in a session that exists.
func (a *responseRun) resume(ctx context.Context, session string, run wire.RunRequest) error {
	run.SessionID, run.RequireSession = &session, true
	run.Answers = a.input.answers
	for _, turn := range a.input.said {
		run.Message, run.Content = turn.Content, turn.Parts
	}

	return a.receive(a.s.cfg.Host.Run(ctx, a.agentID, run), a.handle)
}

// follow continues the session of the previous response. It reports false, and has started nothing,
// if that is not its last response or if another run has the session.
func (a *responseRun) follow(ctx context.Context, previous responseID, run wire.RunRequest) (bool, error) {
	if !a.req.stored() || a.input.mixed {
		return false, nil
	}

	run.AfterRunID = &previous.run
	err := a.resume(ctx, previous.session, run)
	return a.runID != "" || !isTaken(err), err
}

func (a *responseRun) noPrevious() error {
	return &failure{
		status: http.StatusBadRequest, message: fmt.Sprintf("there is no response %.200q", a.req.PreviousResponseID),
		param: "previous_response_id", code: "previous_response_not_found",
	}
}

func (a *responseRun) noCall() error {
	return invalid("input", fmt.Sprintf("has the output of a call %.200q that neither the input nor the previous response has", a.input.orphan))
}

// orNoPrevious returns the error for a session that is unknown.
func (a *responseRun) orNoPrevious(err error) error {
	if isNotFound(err) {
		return a.noPrevious()
	}

	return err
}

func (a *responseRun) handle(event wire.Event) error {
	o := &a.output
	switch p := event.Payload.(type) {
	case *wire.System:
		if p.Init != nil {
			o.of = responseID{p.RunID, p.SessionID, a.req.Background}
			return a.begin()
		}
	case *wire.PartialMessage:
		if p.Partial.Type != wire.PartialText || !a.structured {
			o.increment(p.Partial.Type, p.Partial.Text)
		}
	case *wire.Assistant:
		switch {
		case p.ParentToolUseID != nil:
		case a.structured:
			o.message(withoutText(p.Message.Content))
		default:
			o.message(p.Message.Content)
		}
	case *wire.ToolResult:
		if p.ParentToolUseID == nil && !a.answersCall(&p.Result) {
			o.called(&p.Result)
		}
	case *wire.Result:
		if a.structured {
			o.final(p)
		}

		o.wait(a.session, p.Pending)
	}

	if !event.More {
		o.flush()
	}

	if n := o.grown(); n > 0 {
		return a.memory.Add(3 * n) // with its JSON
	}

	return nil
}

// answersCall reports whether a result is that of a client tool, which the client has sent.
func (a *responseRun) answersCall(r *wire.ToolResultDetail) bool {
	for _, t := range a.req.Tools {
		if t.Name == r.ToolName {
			return true
		}
	}

	return false
}

// begin sends the beginning of a stream.
func (a *responseRun) begin() error {
	if a.open == nil {
		return nil
	}

	events, err := a.open()
	if err != nil || events == nil {
		return err
	}

	a.output.events = events
	a.output.response(a.resource(nil), "response.created", "response.in_progress")
	a.output.flush()
	return nil
}

// end sends the end of a run.
func (a *responseRun) end(err error) {
	r := a.resource(err)
	a.output.response(r, "response."+r.Status)
	a.output.flush()
}

// resource returns the response in its present state. err is that of the run.
func (a *responseRun) resource(err error) *resource {
	a.output.close()
	r := &resource{
		ID: a.id().String(), Object: "response", CreatedAt: a.created, Status: inProgress, Model: a.agentID,
		Output: a.output.items, Tools: a.req.Tools, ToolChoice: "auto", Store: a.req.stored(), Metadata: a.req.Metadata, unused: defaults,
	}
	r.Background = a.req.Background
	if len(a.labels) > 0 {
		r.Metadata = maps.Clone(a.labels)
		maps.Copy(r.Metadata, a.req.Metadata)
	}

	if a.req.PreviousResponseID != "" {
		r.PreviousResponseID = &a.req.PreviousResponseID
	}

	if a.req.Instructions != "" {
		r.Instructions = &a.req.Instructions
	}

	if a.req.ToolChoice == "none" {
		r.ToolChoice = "none"
	}

	r.Text = a.req.Text.Format.text()

	switch {
	case err != nil:
		r.fail(a.s.failureOf(a.w, err))
		if a.spent.Usage != (wire.Usage{}) {
			r.Usage = responseUsageOf(a.spent.Usage)
		}
	case a.result != nil:
		r.finish(time.Now().Unix(), a.result, a.structured)
	}

	r.complete()
	return r
}
