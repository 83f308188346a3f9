package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// results returns the lines about tool results and the system events.
func results(lines []string) []string {
	var kept []string
	for _, line := range lines {
		if strings.HasPrefix(line, "tool_result") || strings.HasPrefix(line, "system") {
			kept = append(kept, line)
		}
	}
	return kept
}

func TestReadOnlyToolsRunInParallel(t *testing.T) {
	// Each call waits for the other, and the first one until the result of the second was emitted.
	var both sync.WaitGroup
	both.Add(2)
	observed := make(chan struct{})
	meet := tool.New(tool.Spec{Name: "meet", ReadOnly: true}, func(_ context.Context, call tool.Call) (tool.Result, error) {
		both.Done()
		both.Wait()
		if call.ID == "t1" {
			<-observed
		}
		return tool.Result{Output: "met " + call.ID}, nil
	})
	m, up := upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "meet", `{}`), modeltest.ToolCall("t2", "meet", `{}`)),
		modeltest.Stream(modeltest.Text("Done.")),
	)
	s := newSetup(m, meet)
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	held, err := s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	in := s.input
	in.Session = held
	var lines []string
	for ev, err := range start(e, in).Events(t.Context()) {
		require.NoError(t, err)
		lines = append(lines, short(ev))
		if lines[len(lines)-1] == `tool_result t2 false "met t2"` {
			close(observed)
		}
	}
	require.NoError(t, held.Close())
	require.Equal(t, []string{`tool_result t2 false "met t2"`, `tool_result t1 false "met t1"`}, results(lines), "as the calls end")
	body := string(up.Requests()[1].Body)
	require.Less(t, strings.Index(body, "met t1"), strings.Index(body, "met t2"), "to the model in the order of its calls")
}

func TestOtherToolsRunInOrder(t *testing.T) {
	var running, most int
	var order []string
	var mu sync.Mutex
	write := tool.New(tool.Spec{Name: "write"}, func(_ context.Context, call tool.Call) (tool.Result, error) {
		mu.Lock()
		running++
		most = max(most, running)
		order = append(order, call.ID)
		mu.Unlock()
		defer func() { mu.Lock(); defer mu.Unlock(); running-- }()
		return tool.Result{Output: "ok"}, nil
	})
	m, _ := upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "write", `{}`), modeltest.ToolCall("t2", "write", `{}`),
			modeltest.ToolCall("t3", "write", `{}`)),
		modeltest.Stream(modeltest.Text("Done.")),
	)
	require.NoError(t, newSetup(m, write).run(t.Context(), t, "").err)
	require.Equal(t, 1, most)
	require.Equal(t, []string{"t1", "t2", "t3"}, order)
}

func TestToolCallsThatGoWrong(t *testing.T) {
	tools := []tool.Tool{
		greet(true),
		tool.New(tool.Spec{Name: "fails"}, func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Output: "so far"}, errors.New("disk is full")
		}),
		tool.New(tool.Spec{Name: "panics"}, func(context.Context, tool.Call) (tool.Result, error) { panic("secret detail") }),
		tool.New(tool.Spec{Name: "long"}, func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Output: "head" + strings.Repeat("é", 1000) + "tail"}, nil
		}),
		tool.New(tool.Spec{Name: "binary"}, func(context.Context, tool.Call) (tool.Result, error) {
			return tool.Result{Output: "a\xffb"}, nil
		}),
	}
	for name, row := range map[string]struct {
		call modeltest.Step
		want string
	}{
		"an unknown tool": {modeltest.ToolCall("t", "nothing", `{}`),
			`tool_result t true "There is no tool \"nothing\". The tools are: binary, fails, greet, long, panics."`},
		"an error": {modeltest.ToolCall("t", "fails", `{}`), `tool_result t true "so far\ndisk is full"`},
		"a panic":  {modeltest.ToolCall("t", "panics", `{}`), `tool_result t true "The tool failed with an internal error."`},
		"no input": {modeltest.ToolCall("t", "greet"), `tool_result t false "Hello, "`},
		"input cut off": {modeltest.ToolCall("t", "greet", `{"name":`),
			`tool_result t true "The input is not a JSON object: is not JSON: unexpected end of JSON input at byte 8."`},
		"input not an object": {modeltest.ToolCall("t", "greet", `[1]`),
			`tool_result t true "The input is not a JSON object: must be an object, not array."`},
		"a member twice": {modeltest.ToolCall("t", "greet", `{"name":"a","name":"b"}`),
			`tool_result t true "The input is not a JSON object: name must not occur twice."`},
		"bytes that are no text": {modeltest.ToolCall("t", "binary", `{}`), `tool_result t false "a` + "\uFFFD" + `b"`},
		"a long output": {modeltest.ToolCall("t", "long", `{}`),
			`tool_result t false "head` + strings.Repeat("é", 18) + `\n[1928 bytes cut]\n` + strings.Repeat("é", 18) + `tail"`},
	} {
		t.Run(name, func(t *testing.T) {
			m, up := upstream(t, modeltest.Anthropic, modeltest.Stream(row.call), modeltest.Stream(modeltest.Text("Done.")))
			var log bytes.Buffer
			s := newSetup(m, tools...)
			s.MaxToolOutput = 100
			s.Logger = slog.New(slog.NewTextHandler(&log, nil))
			got := s.run(t.Context(), t, "")
			require.NoError(t, got.err, "the run goes on")
			require.Len(t, results(got.lines), 1)
			require.Contains(t, results(got.lines)[0], row.want)
			require.Len(t, up.Requests(), 2)
			if name == "a panic" {
				require.Contains(t, log.String(), "secret detail")
			}
		})
	}
}

func TestDeniedCallsAreReported(t *testing.T) {
	m, up := upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "greet", `{}`)),
		modeltest.Stream(modeltest.Text("Then not.")),
	)
	s := newSetup(m, greet(false))
	s.Policy = policy(t, permission.ModeDefault, nil, nil)
	got := s.run(t.Context(), t, "")
	require.NoError(t, got.err)
	lines := results(got.lines)
	require.Len(t, lines, 2)
	require.Equal(t, "system permission_denied greet", lines[0])
	require.Contains(t, lines[1], "tool_result t1 true \"Permission to use greet was denied")
	require.Len(t, got.outcome.Denials, 1)
	require.Equal(t, "t1", got.outcome.Denials[0].ToolUseID)
	require.Contains(t, string(up.Requests()[1].Body), "was denied")
}

func TestOnlyOfferedToolsAreSent(t *testing.T) {
	m, up := upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Hi.")))
	other := tool.New(tool.Spec{Name: "other", ReadOnly: true}, nil)
	s := newSetup(m, greet(true), other)
	s.Policy = policy(t, permission.ModeDefault, nil, []string{"other"})
	require.NoError(t, s.run(t.Context(), t, "").err)
	require.Contains(t, string(up.Requests()[0].Body), `"greet"`)
	require.NotContains(t, string(up.Requests()[0].Body), `"other"`)
}

func TestToolTimeoutEndsOnlyTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := tool.New(tool.Spec{Name: "slow"}, func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{Output: "got this far"}, ctx.Err()
		})
		s := newSetup(turns(calls("slow"), says("Done.")), slow)
		got := s.run(t.Context(), t, "")
		require.NoError(t, got.err)
		require.Equal(t, []string{`tool_result t1 true "got this far\nThe call exceeded its time limit of 2m0s and was stopped."`}, results(got.lines))
	})
}

func TestAToolThatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		deaf := tool.New(tool.Spec{Name: "deaf"}, func(context.Context, tool.Call) (tool.Result, error) {
			<-release
			return tool.Result{}, nil
		})
		var log logtest.Buffer
		s := newSetup(turns(calls("deaf"), says("Done.")), deaf)
		s.Logger = slog.New(slog.NewTextHandler(&log, nil))
		ended := make(chan recordedRun, 1)
		go func() { ended <- s.run(t.Context(), t, "") }()
		<-time.After(3 * time.Minute)
		synctest.Wait()
		require.Empty(t, ended, "the run is not over while something of it runs")
		require.Contains(t, log.String(), "deaf", "the tool is logged")
		close(release)
		got := <-ended
		require.NoError(t, got.err)
		require.Equal(t, []string{`tool_result t1 true "The call exceeded its time limit of 2m0s and was stopped."`}, results(got.lines),
			"the model went on without it")
	})
}

func TestToolsThatDelayACancelAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		deaf := tool.New(tool.Spec{Name: "deaf"}, func(context.Context, tool.Call) (tool.Result, error) {
			<-release
			return tool.Result{}, nil
		})
		var log logtest.Buffer
		s := newSetup(turns(calls("deaf")), deaf)
		s.Logger = slog.New(slog.NewTextHandler(&log, nil))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan recordedRun, 1)
		go func() { ended <- s.run(ctx, t, "") }()
		synctest.Wait()
		cancel()
		<-time.After(10*time.Second - 1)
		synctest.Wait()
		require.Empty(t, log.String())
		<-time.After(1)
		synctest.Wait()
		require.Contains(t, log.String(), "tools=[deaf]")
		require.Empty(t, ended)
		close(release)
		require.ErrorIs(t, (<-ended).err, context.Canceled)
	})
}

func TestParallelCallsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		slow := tool.New(tool.Spec{Name: "slow", ReadOnly: true}, func(context.Context, tool.Call) (tool.Result, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			<-time.After(time.Second)
			return tool.Result{Output: "ok"}, nil
		})
		var parts []model.Part
		for i := range 100 {
			parts = append(parts, model.Part{Kind: model.KindToolUse, Index: i, ID: fmt.Sprint(i), Name: "slow"})
		}
		parts = append(parts, model.Part{Kind: model.KindStop, StopReason: model.StopToolUse})
		s := newSetup(turns(parts, says("Done.")), slow)
		s.ToolTimeout = 2 * time.Second // each call has it from when it starts
		begin := time.Now()
		got := s.run(t.Context(), t, "")
		require.NoError(t, got.err)
		require.Len(t, results(got.lines), 100)
		require.NotContains(t, strings.Join(got.lines, "\n"), "true")
		require.EqualValues(t, 16, most.Load())
		require.Equal(t, 7*time.Second, time.Since(begin))
	})
}

func TestCancelReachesTools(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var cause error
	ended := make(chan struct{})
	stops := tool.New(tool.Spec{Name: "stops", ReadOnly: true}, func(ctx context.Context, call tool.Call) (tool.Result, error) {
		if call.ID == "t1" {
			defer close(ended)
			return tool.Result{Output: "quick"}, nil
		}
		<-ended
		cancel(enough)
		<-ctx.Done()
		cause = context.Cause(ctx)
		return tool.Result{}, cause
	})
	m, up := upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "stops", `{}`), modeltest.ToolCall("t2", "stops", `{}`)),
		modeltest.Stream(modeltest.Text("Where were we?")),
	)
	s := newSetup(m, stops)
	got := s.run(ctx, t, "")
	require.ErrorIs(t, got.err, enough)
	require.ErrorIs(t, cause, enough)
	require.Empty(t, got.outcome.Text)

	got = s.run(t.Context(), t, got.session)
	require.NoError(t, got.err)
	require.Contains(t, string(up.Requests()[1].Body), "interrupted", "upstream gets an answer to every call")
	require.Contains(t, string(up.Requests()[1].Body), "quick", "and what was done is not lost")
}

func ExampleConfig_tools() {
	add := tool.New(tool.Spec{
		Name: "add", Description: "Adds two numbers.", ReadOnly: true,
		InputSchema: []byte(`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`),
	}, func(_ context.Context, call tool.Call) (tool.Result, error) {
		return tool.Result{Output: "the sum of " + string(call.Input)}, nil
	})
	e, err := engine.New(engine.Config{Model: turns(says("Hi.")), Tools: []tool.Tool{add}})
	fmt.Println(e.Tools(), err)
	// Output: [add] <nil>
}
