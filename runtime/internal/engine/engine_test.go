package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/anthropic"
	"github.com/seed93082962/agenthost/runtime/model/demo"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/model/openai"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// connections are idle ones of the models' clients, which belong to no run.
var connections = []goleak.Option{
	goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
	goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
	goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(patient{m}, connections...) }

// patient runs tests and waits until their goroutines end: a run that is cancelled does not wait
// for the validation of an input, whose steps are bounded.
type patient struct{ m *testing.M }

func (p patient) Run() int {
	code := p.m.Run()
	for limit := time.Now().Add(time.Minute); code == 0 && goleak.Find(connections...) != nil && time.Now().Before(limit); {
	}
	return code
}

// upstream starts a scripted upstream and returns the model that calls it.
func upstream(t *testing.T, protocol modeltest.Protocol, replies ...modeltest.Reply) (model.Model, *modeltest.Upstream) {
	t.Helper()
	up := modeltest.Start(t, protocol, replies...)
	var m model.Model
	var err error
	if protocol == modeltest.Anthropic {
		m, err = anthropic.New(anthropic.Config{BaseURL: up.URL, APIKey: "key"})
	} else {
		m, err = openai.New(openai.Config{BaseURL: up.URL, APIKey: "key"})
	}
	require.NoError(t, err)
	return m, up
}

// setup is the configuration of most tests.
type setup struct {
	engine.Config
	input engine.Input
	store session.Store
}

func newSetup(m model.Model, tools ...tool.Tool) *setup {
	return &setup{
		Config: engine.Config{Model: m, Request: model.Request{Model: "m"}, Tools: tools, Policy: bypass()},
		input:  engine.Input{RunID: "run", Message: "hello", Partials: true},
		store:  session.NewMemory(session.MemoryConfig{}),
	}
}

// bypass permits all tool calls.
func bypass() *permission.Policy {
	p, err := permission.New(permission.Config{Mode: permission.ModeBypass})
	if err != nil {
		panic(err)
	}
	return p
}

// recordedRun is the result of one run and its events.
type recordedRun struct {
	lines   []string // one for each event, in short
	err     error
	outcome engine.Outcome
	session string
}

// run executes one run to its end.
func (s *setup) run(ctx context.Context, t *testing.T, sessionID string) recordedRun {
	t.Helper()
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	held, err := s.store.Open(t.Context(), "agent", sessionID)
	require.NoError(t, err)
	defer func() { require.NoError(t, held.Close()) }()
	in := s.input
	in.Session = held
	r := start(e, in)
	got := recordedRun{session: held.ID()}
	for ev, err := range r.Events(ctx) {
		require.NoError(t, got.err, "an error is the last thing that comes")
		if got.err = err; err == nil {
			got.lines = append(got.lines, short(ev))
		}
	}
	got.outcome = r.Outcome()
	return got
}

// short describes an event in a few words.
func short(ev wire.Event) string {
	switch p := ev.Payload.(type) {
	case *wire.PartialMessage:
		return fmt.Sprintf("partial %s %q", p.Partial.Type, p.Partial.Text+p.Partial.ToolName)
	case *wire.Assistant:
		return fmt.Sprintf("assistant %s %d blocks", p.Message.StopReason, len(p.Message.Content))
	case *wire.ToolResult:
		return fmt.Sprintf("tool_result %s %t %q", p.Result.ToolUseID, p.Result.IsError, p.Result.Output)
	case *wire.System:
		return fmt.Sprintf("system %s %s", p.Subtype, p.ToolName)
	}
	return ev.EventName()
}

// greet is a tool that returns its input.
func greet(readOnly bool) tool.Tool {
	return tool.New(tool.Spec{Name: "greet", Description: "Greets.", ReadOnly: readOnly},
		func(_ context.Context, call tool.Call) (tool.Result, error) {
			var in struct{ Name string }
			if err := json.Unmarshal(call.Input, &in); err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Output: "Hello, " + in.Name}, nil
		})
}

func TestARunOfOneTurn(t *testing.T) {
	for _, protocol := range []modeltest.Protocol{modeltest.Anthropic, modeltest.OpenAI} {
		t.Run(string(protocol), func(t *testing.T) {
			m, up := upstream(t, protocol, modeltest.Stream(
				modeltest.Thinking("Let me ", "see."), modeltest.Text("Good ", "day."),
				modeltest.Usage(model.Usage{InputTokens: 7, OutputTokens: 3}),
			))
			s := newSetup(m)
			s.Request.System = "Be kind."
			got := s.run(t.Context(), t, "")
			require.NoError(t, got.err)
			require.Equal(t, []string{
				`partial thinking "Let me "`, `partial thinking "see."`, `partial text "Good "`, `partial text "day."`,
				`assistant end_turn 2 blocks`,
			}, got.lines)
			require.Equal(t, engine.Outcome{
				Text: "Good day.", StopReason: model.StopEndTurn, NumTurns: 1, Usage: wire.Usage{InputTokens: 7, OutputTokens: 3},
			}, got.outcome)
			require.Contains(t, string(up.Requests()[0].Body), "Be kind.")
		})
	}
}

func TestWithoutPartials(t *testing.T) {
	m, _ := upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Good ", "day.")))
	s := newSetup(m)
	s.input.Partials = false
	require.Equal(t, []string{"assistant end_turn 1 blocks"}, s.run(t.Context(), t, "").lines)
}

func TestToolCallsAndResults(t *testing.T) {
	for _, protocol := range []modeltest.Protocol{modeltest.Anthropic, modeltest.OpenAI} {
		t.Run(string(protocol), func(t *testing.T) {
			m, up := upstream(t, protocol,
				modeltest.Stream(modeltest.Text("One moment."), modeltest.ToolCall("t1", "greet", `{"name":`, `"Ada"}`),
					modeltest.Usage(model.Usage{InputTokens: 10, OutputTokens: 2})),
				modeltest.Stream(modeltest.Text("Done."), modeltest.Usage(model.Usage{InputTokens: 20, OutputTokens: 3})),
			)
			got := newSetup(m, greet(false)).run(t.Context(), t, "")
			require.NoError(t, got.err)
			require.Equal(t, []string{
				`partial text "One moment."`, `partial tool_use "greet"`, `assistant tool_use 2 blocks`,
				`tool_result t1 false "Hello, Ada"`,
				`partial text "Done."`, `assistant end_turn 1 blocks`,
			}, got.lines)
			require.Equal(t, "Done.", got.outcome.Text)
			require.Equal(t, 2, got.outcome.NumTurns)
			require.Equal(t, wire.Usage{InputTokens: 30, OutputTokens: 5}, got.outcome.Usage, "the sum of all turns")
			require.Contains(t, string(up.Requests()[1].Body), "Hello, Ada")
		})
	}
}

func TestSessionContinues(t *testing.T) {
	m, up := upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Thinking("Hm."), modeltest.Signature("sig"), modeltest.Redacted("opaque"), modeltest.Text("First.")),
		modeltest.Stream(modeltest.Text("Second.")),
	)
	s := newSetup(m)
	first := s.run(t.Context(), t, "")
	s.input.Message = "and now?"
	second := s.run(t.Context(), t, first.session)
	require.Equal(t, first.session, second.session)
	body := string(up.Requests()[1].Body)
	for _, kept := range []string{"hello", "First.", "and now?", `"signature":"sig"`, "opaque"} {
		require.Contains(t, body, kept)
	}
}

func TestLastTurn(t *testing.T) {
	call := modeltest.Stream(modeltest.Text("Again."), modeltest.ToolCall("t1", "greet", `{}`))
	t.Run("an answer on it is a success", func(t *testing.T) {
		m, _ := upstream(t, modeltest.Anthropic, call, modeltest.Stream(modeltest.Text("Done.")))
		s := newSetup(m, greet(false))
		s.MaxTurns = 2
		got := s.run(t.Context(), t, "")
		require.NoError(t, got.err)
		require.Equal(t, "Done.", got.outcome.Text)
	})
	t.Run("tools on it are not run", func(t *testing.T) {
		m, up := upstream(t, modeltest.Anthropic, call, modeltest.Stream(modeltest.Text("Well.")))
		s := newSetup(m, greet(false))
		s.MaxTurns, s.input.MaxTurns = 7, 1 // a run may tighten the limit
		got := s.run(t.Context(), t, "")
		require.ErrorIs(t, got.err, engine.ErrMaxTurns)
		require.Equal(t, "assistant tool_use 2 blocks", got.lines[len(got.lines)-1])
		require.Equal(t, "Again.", got.outcome.Text)

		s.input.MaxTurns = 0
		got = s.run(t.Context(), t, got.session)
		require.NoError(t, got.err)
		require.Contains(t, string(up.Requests()[1].Body), "interrupted", "the call is answered when the session goes on")
	})
	t.Run("a run cannot widen it", func(t *testing.T) {
		m, _ := upstream(t, modeltest.Anthropic, call)
		s := newSetup(m, greet(false))
		s.MaxTurns, s.input.MaxTurns = 1, 5
		require.ErrorIs(t, s.run(t.Context(), t, "").err, engine.ErrMaxTurns)
	})
}

func TestUpstreamFailures(t *testing.T) {
	for name, row := range map[string]struct {
		reply modeltest.Reply
		code  model.Code
		text  string // what had come before
	}{
		"refused":    {modeltest.Status(401), model.Code(runvalue.ErrorTypeAuth), ""},
		"rate limit": {modeltest.Status(429, "Retry-After", "7"), model.Code(runvalue.ErrorTypeRateLimit), ""},
		"overloaded": {modeltest.Status(529), model.Code(runvalue.ErrorTypeOverloaded), ""},
		"server":     {modeltest.Status(500), model.Code(runvalue.ErrorTypeServer), ""},
		"too long":   {modeltest.PromptTooLong(), model.Code(runvalue.ErrorTypePromptTooLong), ""},
		"html":       {modeltest.Raw(200, "text/html", "<h1>Hello</h1>"), model.Code(runvalue.ErrorTypeServer), ""},
		"dropped":    {modeltest.Stream(modeltest.Text("Half an"), modeltest.Drop()), model.Code(runvalue.ErrorTypeConnection), "Half an"},
		"cut off":    {modeltest.Stream(modeltest.Text("Half an"), modeltest.Cut()), model.Code(runvalue.ErrorTypeConnection), "Half an"},
		"error in mid-stream": {modeltest.Stream(modeltest.Text("Half an"), modeltest.Error("overloaded_error")),
			model.Code(runvalue.ErrorTypeOverloaded), "Half an"},
	} {
		t.Run(name, func(t *testing.T) {
			m, up := upstream(t, modeltest.Anthropic, row.reply, modeltest.Stream(modeltest.Text("Better.")))
			s := newSetup(m)
			got := s.run(t.Context(), t, "")
			var upstreamErr *model.Error
			require.ErrorAs(t, got.err, &upstreamErr)
			require.Equal(t, row.code, upstreamErr.Code)
			require.Equal(t, row.text, got.outcome.Text)

			// The session continues with the stored messages.
			got = s.run(t.Context(), t, got.session)
			require.NoError(t, got.err)
			if row.text != "" {
				require.Contains(t, string(up.Requests()[1].Body), row.text)
			}
		})
	}
}

func TestCancelLeavesNothingRunning(t *testing.T) {
	m, up := upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("One"), modeltest.Hang()))
	s := newSetup(m)
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	held, err := s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	in := s.input
	in.Session = held
	for _, err := range start(e, in).Events(t.Context()) {
		require.NoError(t, err)
		break
	}
	_, early := up.Requests()[0].End()
	require.True(t, early, "upstream sees the connection closed")
	require.NoError(t, held.Close())
}

func TestCancel(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	m, up := upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("One"), modeltest.Hang()))
	go func() {
		up.Await(t, 1)
		cancel(cause)
	}()
	got := newSetup(m).run(ctx, t, "")
	require.ErrorIs(t, got.err, cause)
	_, early := up.Requests()[0].End()
	require.True(t, early)
}

func TestNewRejects(t *testing.T) {
	for name, row := range map[string]struct {
		cfg  engine.Config
		want string
	}{
		"no model": {engine.Config{}, "no model"},
		"a bad name": {engine.Config{Model: demo.New(0),
			Tools: []tool.Tool{tool.New(tool.Spec{Name: "a b"}, nil)}}, "a b"},
		"two of one name": {engine.Config{Model: demo.New(0), Tools: []tool.Tool{greet(true), greet(true)}}, "two tools"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := engine.New(row.cfg)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func ExampleEngine() {
	e, err := engine.New(engine.Config{Model: demo.New(0)})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	held, _ := session.NewMemory(session.MemoryConfig{}).Open(ctx, "helper", "")
	defer held.Close()

	outcome, err := e.Run(ctx, engine.Input{Session: held, Message: "Hello!"}, engine.OutputFunc(func(event wire.Payload) {
		fmt.Println(event.EventName())
	}))
	if err != nil {
		panic(err)
	}
	fmt.Println(outcome.StopReason)
	// Output:
	// assistant
	// end_turn
}
