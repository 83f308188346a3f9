package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Subagent is what an agent may hand a task to, through the tool Task. It begins with nothing but
// the prompt that it is given, and only its last text comes back.
type Subagent struct {
	Name        string
	Description string  // tells the model when to use it
	Engine      *Engine // without subagents of its own
}

// task is the tool Task. The engine runs its calls itself: their events are part of the run.
type task struct {
	spec   tool.Spec
	agents map[string]*Engine
}

const taskDescription = `Hands a task to a subagent, which works on it on its own and answers with one text.

A subagent sees nothing of this conversation: the prompt must hold all that it needs to know, and say what it is to answer.
Several calls in one answer run side by side. Use it for work that stands on its own or would fill this conversation with
details; do small things yourself.

Subagents (for subagent_type):
`

// newTask makes the tool Task. The names are an enum in its schema, and described in its text.
func newTask(subagents []Subagent) (*task, error) {
	t := &task{agents: map[string]*Engine{}}
	var text strings.Builder
	text.WriteString(taskDescription)
	names := make([]string, 0, len(subagents))
	for _, s := range slices.SortedFunc(slices.Values(subagents), func(a, b Subagent) int { return cmp.Compare(a.Name, b.Name) }) {
		switch {
		case s.Name == "" || s.Engine == nil:
			return nil, errors.New("a subagent needs a name and an engine")
		case t.agents[s.Name] != nil:
			return nil, fmt.Errorf("two subagents are named %q", s.Name)
		case len(s.Engine.cfg.Subagents) > 0:
			return nil, fmt.Errorf("subagent %q has subagents of its own", s.Name)
		}
		t.agents[s.Name] = s.Engine
		names = append(names, s.Name)
		fmt.Fprintf(&text, "- %s: %s\n", s.Name, s.Description)
	}
	enum, err := json.Marshal(names)
	if err != nil {
		return nil, err
	}
	t.spec = tool.Spec{
		Name: "Task", Description: strings.TrimSuffix(text.String(), "\n"), ReadOnly: true, // its calls are checked one by one
		InputSchema: fmt.Appendf(nil, `{"type":"object","properties":{`+
			`"description":{"type":"string","description":"The task in three to five words"},`+
			`"prompt":{"type":"string","description":"The task, with all that the subagent needs to know"},`+
			`"subagent_type":{"type":"string","enum":%s,"description":"Which subagent works on it"}},`+
			`"required":["description","prompt","subagent_type"],"additionalProperties":false}`, enum),
	}
	return t, nil
}

func (t *task) Spec() tool.Spec { return t.spec }

// Call is not how a task runs: see [Run.delegate].
func (t *task) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{}, errors.New("a task runs as part of a run")
}

// delegate runs a subagent on a task. Its messages and its tools' results are told as they come,
// under the id of the call; what it used counts for this run.
func (r *Run) delegate(ctx context.Context, t *task, call tool.Call, tell func(wire.Event)) (res result) {
	var in struct {
		Prompt       string `json:"prompt"`
		SubagentType string `json:"subagent_type"`
	}
	if err := json.Unmarshal(call.Input, &in); err != nil { // it fits the schema
		return result{output: err.Error(), isError: true}
	}
	if strings.TrimSpace(in.Prompt) == "" {
		return result{output: "The prompt is empty.", isError: true}
	}
	sub := t.agents[in.SubagentType].Start(Input{
		RunID: r.in.RunID, Session: &scratch{id: r.in.Session.ID()}, Message: in.Prompt, MaxTurns: r.maxTurns, Timeout: r.timeout,
	})
	var err error
	var ev wire.Event
	for ev, err = range sub.Events(ctx) {
		if err != nil {
			break
		}
		switch p := ev.Payload.(type) {
		case *wire.Assistant:
			p.ParentToolUseID = &call.ID
		case *wire.ToolResult:
			p.ParentToolUseID = &call.ID
		case *wire.System:
			if p.Subtype != wire.SystemPermissionDenied {
				continue // the servers are those of this run, and told of
			}
		}
		ev.More = false
		tell(ev)
	}
	outcome := sub.Outcome()
	res = result{output: outcome.Text, usage: outcome.Usage, denials: outcome.Denials}
	if err != nil {
		res.isError = true
		res.output = strings.TrimLeft(fmt.Sprintf("%s\nThe subagent did not finish: %v.", outcome.Text, reason(err)), "\n")
	}
	return res
}

// reason is what the model may know of an error.
func reason(err error) string {
	if upstream, ok := errors.AsType[*model.Error](err); ok {
		return upstream.Message
	}
	return err.Error()
}

// scratch is the conversation of a subagent, which nobody comes back to.
type scratch struct {
	id       string
	messages []model.Message
}

func (s *scratch) ID() string                { return s.id }
func (s *scratch) Resumed() bool             { return false }
func (s *scratch) Messages() []model.Message { return s.messages }
func (s *scratch) Close() error              { return nil }

func (s *scratch) Append(_ context.Context, m model.Message) error {
	s.messages = append(s.messages, m)
	return nil
}

func (s *scratch) Compact(_ context.Context, messages []model.Message) error {
	s.messages = messages
	return nil
}
