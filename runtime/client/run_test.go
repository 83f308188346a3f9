package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestRunYieldsTypedEvents(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Thinking("Hm."), modeltest.Signature("s"), modeltest.Text("One ", "moment."),
			modeltest.ToolCall("t1", "greet", `{"name":"Ada"}`)),
		modeltest.Stream(modeltest.Text("Done."), modeltest.Usage(model.Usage{InputTokens: 20, OutputTokens: 3})),
	)
	greet := tool.New(tool.Spec{Name: "greet", Description: "Greets."}, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Output: "Hello, Ada"}, nil
	})
	rt := host(t, up, func(c *runtime.Config) {
		c.Tools = []tool.Tool{greet}
		c.Agents[0].AllowedTools = []string{"greet"}
	})
	payloads, err := all(t, connect(t, listen(t, rt).URL), hello)
	require.NoError(t, err)
	require.Equal(t, []string{
		"system", "partial_message", "partial_message", "partial_message", "partial_message", "assistant", "tool_result",
		"partial_message", "assistant", "result", "done",
	}, names(payloads))

	system := find[*wire.System](t, payloads)
	require.Equal(t, runvalue.SystemInit, system.Subtype)
	require.Equal(t, "helper", system.AgentID)
	require.Equal(t, []string{"greet"}, system.Tools)
	require.Equal(t, wire.Partial{Type: wire.PartialThinking, Text: "Hm."}, payloads[1].(*wire.PartialMessage).Partial)
	require.Equal(t, wire.Partial{Type: wire.PartialText, Text: "One "}, payloads[2].(*wire.PartialMessage).Partial)
	require.Equal(t, wire.Partial{Type: wire.PartialToolUse, ToolName: "greet", ToolUseID: "t1"},
		payloads[4].(*wire.PartialMessage).Partial)
	require.Equal(t, []wire.Block{
		{Type: "thinking", Thinking: "Hm."},
		{Type: "text", Text: "One moment."},
		{Type: "tool_use", ID: "t1", Name: "greet", Input: json.RawMessage(`{"name":"Ada"}`)},
	}, payloads[5].(*wire.Assistant).Message.Content)
	require.Equal(t, "Hello, Ada", find[*wire.ToolResult](t, payloads).Result.Output)
	result := find[*wire.Result](t, payloads)
	require.Equal(t, runvalue.ResultSuccess, result.Subtype)
	require.Equal(t, "Done.", *result.Result)
	require.Equal(t, system.RunID, result.RunID)
	require.Equal(t, int64(30), result.Usage.InputTokens)
}

func TestRunWithoutPartialMessages(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Hi", " there.")))
	payloads, err := all(t, at(t, up), wire.RunRequest{Message: "hello", Stream: wire.StreamBlock})
	require.NoError(t, err)
	require.Equal(t, []string{"system", "assistant", "result", "done"}, names(payloads))
}

func TestRunSendsTheRequest(t *testing.T) {
	c := at(t, talker(t))
	const id = "11111111-1111-4111-8111-111111111111"
	payloads, err := all(t, c, wire.RunRequest{Message: "hello", RunID: new(id)})
	require.NoError(t, err)
	first := find[*wire.System](t, payloads)
	require.Equal(t, id, first.RunID)
	require.False(t, first.Resumed)

	payloads, err = all(t, c, wire.RunRequest{Message: "again", SessionID: new(first.SessionID)})
	require.NoError(t, err)
	second := find[*wire.System](t, payloads)
	require.Equal(t, first.SessionID, second.SessionID)
	require.True(t, second.Resumed)
	require.NotEqual(t, id, second.RunID)
}

func TestEventsComeWhileTheModelIsSilent(t *testing.T) {
	gate := make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(
		modeltest.Text("one"), modeltest.Gate(gate), modeltest.Text("two")))
	var texts []string
	for ev, err := range at(t, up).Run(t.Context(), "helper", hello) {
		require.NoError(t, err)
		if p, ok := ev.Payload.(*wire.PartialMessage); ok {
			texts = append(texts, p.Partial.Text)
			if len(texts) == 1 {
				require.False(t, ev.More, "nothing is on its way")
				close(gate)
			}
		}
	}
	require.Equal(t, []string{"one", "two"}, texts)
}

func TestMoreReportsBufferedEvents(t *testing.T) {
	const event = "event: partial_message\ndata: {\"type\":\"partial_message\",\"partial\":{\"type\":\"text\",\"text\":\"x\"}}\n\n"
	gate := make(chan struct{})
	c := raw(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(event + event + event))
		_ = http.NewResponseController(w).Flush()
		<-gate
		_, _ = w.Write([]byte("event: done\ndata: {}\n\n"))
	})
	var more []bool
	for ev, err := range c.Run(t.Context(), "helper", hello) {
		require.NoError(t, err)
		if more = append(more, ev.More); len(more) == 3 {
			close(gate)
		}
	}
	require.Equal(t, []bool{true, true, false, false}, more)
}

func TestUnknownEventsAreYielded(t *testing.T) {
	c := raw(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(": ping\n\nevent: news\ndata: {\"type\":\"news\"}\n\n" +
			"event: system\ndata: {\"type\":\"system\",\"subtype\":\"news\",\"new\":1}\n\nevent: done\ndata: {}\n\n"))
	})
	payloads, err := all(t, c, hello)
	require.NoError(t, err)
	require.Equal(t, []string{"news", "system", "done"}, names(payloads))
	require.JSONEq(t, `{"type":"news"}`, string(find[*wire.Unknown](t, payloads).Data))
}

// disconnected checks that the run was cancelled because its client disconnected.
func disconnected(t *testing.T, c *client.Client, up *modeltest.Upstream, runID string) {
	t.Helper()
	_, early := up.Await(t, 1).End()
	require.True(t, early, "the connection to the model is closed")
	answer, err := c.Cancel(t.Context(), runID)
	require.NoError(t, err)
	require.Equal(t, wire.ReasonDisconnect, answer.Reason)
}

func TestBreakingTheLoopCancelsTheRun(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("one"), modeltest.Hang()))
	c := at(t, up)
	var runID string
	for ev, err := range c.Run(t.Context(), "helper", hello) {
		require.NoError(t, err)
		if s, ok := ev.Payload.(*wire.System); ok {
			runID = s.RunID
		}
		if _, ok := ev.Payload.(*wire.PartialMessage); ok {
			break
		}
	}
	disconnected(t, c, up, runID)
}

func TestEndOfTheContextCancelsTheRun(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("one"), modeltest.Hang()))
	c := at(t, up)
	reason := errors.New("no more of this")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var runID string
	var last error
	for ev, err := range c.Run(ctx, "helper", hello) {
		require.NoError(t, last, "an error is the last thing yielded")
		if last = err; err != nil {
			continue
		}
		if s, ok := ev.Payload.(*wire.System); ok {
			runID = s.RunID
		}
		if _, ok := ev.Payload.(*wire.PartialMessage); ok {
			cancel(reason)
		}
	}
	require.ErrorIs(t, last, reason)
	require.NotErrorIs(t, last, client.ErrIncomplete)
	disconnected(t, c, up, runID)
}

func TestContextThatHasEnded(t *testing.T) {
	c := at(t, nil)
	reason := errors.New("not even begun")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	for ev, err := range c.Run(ctx, "helper", hello) {
		require.ErrorIs(t, err, reason)
		require.Nil(t, ev.Payload)
	}
	_, err := c.Complete(ctx, "helper", hello)
	require.ErrorIs(t, err, reason)
}

func TestEachRangeIsARun(t *testing.T) {
	events := at(t, talker(t)).Run(t.Context(), "helper", hello)
	seen := map[string]bool{}
	for range 2 {
		for ev, err := range events {
			require.NoError(t, err)
			if s, ok := ev.Payload.(*wire.System); ok {
				seen[s.RunID] = true
			}
		}
	}
	require.Len(t, seen, 2)
}

func TestConnectionsAreReused(t *testing.T) {
	s := listen(t, host(t, talker(t), nil))
	c := connect(t, s.URL)
	for range 5 {
		_, err := all(t, c, hello)
		require.NoError(t, err)
		for ev, err := range c.Run(t.Context(), "helper", hello) { // a caller that breaks at done has read everything
			require.NoError(t, err)
			if _, ok := ev.Payload.(*wire.Done); ok {
				break
			}
		}
		_, err = c.Complete(t.Context(), "helper", hello)
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), s.connections.Load())
}
