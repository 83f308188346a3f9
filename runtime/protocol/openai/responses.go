package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/julienschmidt/httprouter"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

// responsesRequest is the body of POST /responses, without the fields that are ignored.
type responsesRequest struct {
	Model              string          `json:"model"`
	Input              inputItems      `json:"input"`
	Instructions       string          `json:"instructions"`
	PreviousResponseID string          `json:"previous_response_id"`
	Store              *bool           `json:"store"`
	Stream             bool            `json:"stream"`
	Metadata           wire.Metadata   `json:"metadata"`
	Tools              []responsesTool `json:"tools"`
	ToolChoice         toolChoice      `json:"tool_choice"`

	// Rejected, unless they have their default.
	Background   bool            `json:"background"`
	TopLogProbs  int             `json:"top_logprobs"`
	Conversation json.RawMessage `json:"conversation"`
	Prompt       json.RawMessage `json:"prompt"`
	Text         struct {
		Format struct {
			Type string `json:"type"`
		} `json:"format"`
	} `json:"text"`
}

// responsesTool is a client tool, in requests and responses.
type responsesTool struct {
	Type        string          `json:"type"` // function
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
}

func (req *responsesRequest) check() error {
	switch {
	case req.Model == "":
		return invalid("model", "is required: the id of an agent")
	case req.Background:
		return unsupported("background", "a run ends with its connection")
	case req.TopLogProbs != 0:
		return unsupported("top_logprobs", "runs have none")
	case given(req.Conversation):
		return unsupported("conversation", "use previous_response_id")
	case given(req.Prompt):
		return unsupported("prompt", "the prompt is that of the agent")
	case req.Text.Format.Type != "" && req.Text.Format.Type != "text":
		return unsupported("text.format", "a response has text")
	}

	for i, t := range req.Tools {
		if t.Type != "function" {
			return unsupported(fmt.Sprintf("tools[%d]", i), "its type must be function, the other tools are those of the agent")
		}
	}

	return req.ToolChoice.check()
}

// stored reports whether the response can be continued and read later.
func (req *responsesRequest) stored() bool { return req.Store == nil || *req.Store }

// clientTools returns the tools of the request as those of a run.
func (req *responsesRequest) clientTools() []wire.ClientTool {
	if req.ToolChoice == "none" {
		return nil
	}

	var list []wire.ClientTool
	for _, t := range req.Tools {
		tool := wire.ClientTool{Name: t.Name}
		if t.Description != nil {
			tool.Description = *t.Description
		}

		if given(t.Parameters) {
			tool.InputSchema = t.Parameters
		}

		list = append(list, tool)
	}

	return list
}

// createResponse handles POST /responses.
func (s *server) createResponse(w http.ResponseWriter, r *http.Request, _ httprouter.Params) error {
	memory := &httpapi.Memory{Reserve: s.cfg.Host.Reserve}
	defer memory.Release()
	var req responsesRequest
	err := memory.ReadJSON(w, r, s.cfg.MaxBytes, &req)
	if err == nil {
		err = req.check()
	}

	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	a := &responseRun{exchange: s.newExchange(w, r, memory, req.Model, req.Stream), req: &req, cancel: cancel}
	a.output.label = req.Model
	if a.input, err = req.read(); err != nil {
		return err
	}

	err = a.execute(ctx)
	if !req.stored() {
		a.forget(ctx)
	}

	if a.output.events != nil {
		return a.end(err)
	}

	if err != nil {
		return err
	}

	return httpapi.WriteJSON(w, http.StatusOK, a.resource(nil))
}

// responseRun is the response to one request, and its run.
type responseRun struct {
	*exchange

	req    *responsesRequest
	input  input
	cancel context.CancelFunc
	output output
}

// execute executes the run: in the session of the previous response if that is its last one, and
// otherwise in a new session with the conversation up to it. Results and decisions without a previous
// response continue the session that waits for them.
func (a *responseRun) execute(ctx context.Context) error {
	run := wire.RunRequest{Stream: wire.StreamOff, Metadata: a.req.Metadata, ClientTools: a.req.clientTools()}
	if a.req.Stream {
		run.Stream = wire.StreamRaw
	}

	if len(run.ClientTools) > 0 {
		run.Inputs = append(run.Inputs, runvalue.InputClientTool)
	}

	if a.req.stored() {
		run.Inputs = append(run.Inputs, runvalue.InputApproval)
	}

	if a.req.PreviousResponseID == "" {
		if len(a.input.answers) > 0 {
			if err := a.resume(ctx, a.input.session, run); a.runID != "" || !isTaken(err) {
				return err
			}
		}

		return a.start(ctx, run, a.input.talk)
	}

	previous, ok := parseResponseID(a.req.PreviousResponseID)
	if !ok {
		return a.noPrevious()
	}

	done, err := a.follow(ctx, previous, run)
	if done {
		return err
	}

	talk, err := a.conversationUntil(ctx, previous)
	if err != nil {
		return err
	}

	for _, turn := range a.input.talk {
		talk.add(turn.Role, turn.Content)
	}

	return a.start(ctx, run, talk)
}

// start executes the run in a new session with a conversation.
func (a *responseRun) start(ctx context.Context, run wire.RunRequest, talk conversation) error {
	var err error
	if run.History, run.Message, err = talk.split("input"); err != nil {
		return err
	}

	stored := len(run.Inputs) > 0
	run.Store = &stored
	return a.receive(a.s.cfg.Host.Run(ctx, a.agentID, run), a.handle)
}

// resume executes the run in a session that exists.
func (a *responseRun) resume(ctx context.Context, session string, run wire.RunRequest) error {
	run.SessionID, run.RequireSession = &session, true
	run.Message, run.Answers = a.input.said, a.input.answers
	return a.receive(a.s.cfg.Host.Run(ctx, a.agentID, run), a.handle)
}

// follow continues the session of the previous response. It reports false, and has started nothing, if
// that is not its last response or if another run has the session.
func (a *responseRun) follow(ctx context.Context, previous responseID, run wire.RunRequest) (bool, error) {
	if !a.req.stored() || a.input.mixed {
		return false, nil
	}

	// Two requests must not both find the last response before one of them opens the session.
	if _, taken := a.s.followed.LoadOrStore(previous.session, true); taken {
		return false, nil
	}

	defer a.s.followed.Delete(previous.session)
	last, err := a.s.lastRun(ctx, previous.session)
	if err != nil {
		return true, a.orNoPrevious(err)
	}

	if last != previous.run {
		return false, nil
	}

	err = a.resume(ctx, previous.session, run)
	return a.runID != "" || !isTaken(err), err
}

func (a *responseRun) noPrevious() error {
	return &failure{
		status: http.StatusNotFound, message: fmt.Sprintf("there is no response %.200q", a.req.PreviousResponseID),
		param: "previous_response_id", code: "previous_response_not_found",
	}
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
			o.run = p.RunID
			return a.begin()
		}
	case *wire.PartialMessage:
		o.increment(p.Partial.Type, p.Partial.Text)
	case *wire.Assistant:
		if p.ParentToolUseID == nil {
			o.message(p.Message.Content)
		}
	case *wire.ToolResult:
		if p.ParentToolUseID == nil && !a.answersCall(&p.Result) {
			o.called(&p.Result)
		}
	case *wire.Result:
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
	if !a.stream {
		return nil
	}

	events, err := a.openStream(a.cancel)
	if err != nil {
		return err
	}

	a.output.events = events
	a.output.response("response.created", a.resource(nil))
	a.output.response("response.in_progress", a.resource(nil))
	a.output.flush()
	return nil
}

// end sends the end of a run, and closes the stream.
func (a *responseRun) end(err error) error {
	o := &a.output
	defer func() { _ = o.events.Close() }() // OnError has handled the error
	r := a.resource(err)
	o.response("response."+r.Status, r)
	_ = o.events.Queue(sse.Event{Data: []byte("[DONE]")})
	return nil
}

// resource returns the response in its present state. err is that of the run.
func (a *responseRun) resource(err error) *resource {
	a.output.close()
	r := &resource{
		ID: responseID{a.runID, a.session}.String(), Object: "response", CreatedAt: a.created, Status: inProgress, Model: a.agentID,
		Output: a.output.items, Tools: a.req.Tools, ToolChoice: "auto", Store: a.req.stored(), Metadata: a.req.Metadata, unused: defaults,
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

	switch {
	case err != nil:
		r.fail(a.s.failureOf(a.w, err))
		if a.spent.Usage != (wire.Usage{}) {
			r.Usage = responseUsageOf(a.spent.Usage)
		}
	case a.result != nil:
		r.finish(time.Now().Unix(), a.result)
	}

	r.complete()
	return r
}

// responseID is the id of a response. It has the run and its session, so that it is valid after a
// restart.
type responseID struct{ run, session string }

const responsePrefix = "resp_"

func (id responseID) String() string {
	return responsePrefix + strings.TrimPrefix(callID(id.session, id.run), callPrefix)
}

func parseResponseID(text string) (responseID, bool) {
	rest, ok := strings.CutPrefix(text, responsePrefix)
	session, run := parseCallID(callPrefix + rest)
	return responseID{run, session}, ok && session != ""
}
