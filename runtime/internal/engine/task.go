package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/jsonlimit"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Subagent is an agent that the tool Task calls. It receives only the prompt of the call, and only
// its last text is returned.
type Subagent struct {
	Name        string
	Description string  // for the model: when to use it
	Engine      *Engine // has no subagents itself
}

// task is the tool Task. Its calls are run by runTask: their events are events of the run.
type task struct {
	spec   tool.Spec
	agents map[string]*Engine
}

const taskDescription = `Gives a task to a subagent, which completes it independently and returns one text.

A subagent does not see this conversation: the prompt must contain everything that it needs to know, and what it should return.
Several calls in one response run in parallel. Use it for independent tasks, or tasks that would fill this conversation with
details. Do small tasks yourself.

Subagents (for subagent_type):
`

// newTask returns the tool Task. Its schema has the names of the subagents as an enum, and its
// description describes them.
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
		Name: "Task", Description: strings.TrimSuffix(text.String(), "\n"), ReadOnly: true, // the calls of the subagent are checked
		InputSchema: fmt.Appendf(nil, `{"type":"object","properties":{`+
			`"description":{"type":"string","description":"The task in three to five words"},`+
			`"prompt":{"type":"string","description":"The task, with everything that the subagent needs to know"},`+
			`"subagent_type":{"type":"string","enum":%s,"description":"The subagent for the task"}},`+
			`"required":["description","prompt","subagent_type"],"additionalProperties":false}`, enum),
	}
	return t, nil
}

func (t *task) Spec() tool.Spec { return t.spec }

// Call implements tool.Tool. It is not used: see runTask.
func (t *task) Call(context.Context, tool.Call) (tool.Result, error) {
	return tool.Result{}, errors.New("a task runs as part of a run")
}

// taskOutput forwards the events of a subagent to the run that called it.
type taskOutput struct {
	callID string
	emit   func(wire.Payload)
}

// Emit implements Output.
func (o taskOutput) Emit(p wire.Payload) {
	switch p := p.(type) {
	case *wire.Assistant:
		p.ParentToolUseID = &o.callID
	case *wire.ToolResult:
		p.ParentToolUseID = &o.callID
	case *wire.System:
		if p.Subtype != runvalue.SystemPermissionDenied {
			return // the run has the same servers and emits the events about them
		}
	}

	o.emit(p)
}

// Flush implements Output. The run that called the subagent flushes.
func (taskOutput) Flush() {}

// runTask runs a subagent. Its complete messages and tool results are emitted under the id of the
// call, and its usage is added to this run.
func (r *runState) runTask(ctx context.Context, t *task, call tool.Call, emit func(wire.Payload)) result {
	var in struct {
		Prompt       string `json:"prompt"`
		SubagentType string `json:"subagent_type"`
	}
	if err := jsonlimit.Unmarshal(call.Input, &in); err != nil { // it matches the schema
		return result{output: err.Error(), isError: true}
	}

	if strings.TrimSpace(in.Prompt) == "" {
		return result{output: "The prompt is empty.", isError: true}
	}

	outcome, err := t.agents[in.SubagentType].Run(ctx, Input{
		RunID: r.in.RunID, Session: &taskSession{id: r.in.Session.ID()}, Message: in.Prompt, MaxTurns: r.maxTurns, log: r.in.log, spent: r.spent,
	}, taskOutput{call.ID, emit})
	res := result{output: outcome.Text, denials: outcome.Denials}
	if fault, ok := errors.AsType[*panicError](err); ok {
		panic(fault) // for the recovery of tool calls
	}

	if err != nil {
		res.isError = true
		res.output = strings.TrimLeft(fmt.Sprintf("%s\nThe subagent did not finish: %v.", outcome.Text, publicText(err)), "\n")
	}

	return res
}

// publicText returns the text of an error without details of upstream, for the model and the
// client.
func publicText(err error) string {
	if upstream, ok := errors.AsType[*model.Error](err); ok {
		return upstream.Message
	}

	return err.Error()
}

// taskSession is the conversation of a subagent. It is not stored.
type taskSession struct {
	id       string
	messages []model.Message
}

func (s *taskSession) ID() string                { return s.id }
func (s *taskSession) Begin(string)              {}
func (s *taskSession) Resumed() bool             { return false }
func (s *taskSession) Messages() []model.Message { return s.messages }
func (s *taskSession) Close() error              { return nil }

// Waiting returns nil: the calls of a subagent do not wait.
func (s *taskSession) Waiting() json.RawMessage { return nil }

func (s *taskSession) SetWaiting(context.Context, json.RawMessage, ...json.RawMessage) error {
	return nil
}

// Record does nothing: the run that called the subagent records its events.
func (s *taskSession) Record(json.RawMessage) error { return nil }

func (s *taskSession) Append(_ context.Context, m model.Message) error {
	s.messages = append(s.messages, m)
	return nil
}

func (s *taskSession) Compact(_ context.Context, messages []model.Message) error {
	s.messages = messages
	return nil
}
