package client_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestComplete(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Text("Hi", " there."), modeltest.Usage(model.Usage{InputTokens: 3, OutputTokens: 4})))
	answer, err := at(t, up).Complete(t.Context(), "helper", wire.RunRequest{Message: "hello", Stream: wire.StreamRaw})
	require.NoError(t, err)
	require.Len(t, answer.RunID, 36)
	require.NotEmpty(t, answer.SessionID)
	require.GreaterOrEqual(t, answer.DurationMs, int64(0))
	require.Equal(t, wire.RunResponse{
		RunID: answer.RunID, SessionID: answer.SessionID, State: wire.StateCompleted, Text: "Hi there.",
		Usage: wire.Usage{InputTokens: 3, OutputTokens: 4}, NumTurns: 1, DurationMs: answer.DurationMs, StopReason: "end_turn",
	}, answer)
}

func TestHistoryIsSent(t *testing.T) {
	up := talker(t)
	_, err := at(t, up).Complete(t.Context(), "helper", wire.RunRequest{Message: "Who am I?", History: []wire.Turn{
		{Role: runvalue.RoleUser, Content: "I am Ada."}, {Role: runvalue.RoleAssistant, Content: "Hello, Ada."},
	}})
	require.NoError(t, err)
	require.Regexp(t, `I am Ada\..*Hello, Ada\..*Who am I\?`, string(up.Requests()[0].Body))
}

func TestCompleteOfARunThatFails(t *testing.T) {
	for name, row := range map[string]struct {
		reply     modeltest.Reply
		status    int
		errorType string
		text      string
		retry     time.Duration
	}{
		"rate limit":      {modeltest.Status(429, "Retry-After", "7"), 429, "rate_limit", "", 7 * time.Second},
		"no access":       {modeltest.Status(401), 502, "auth", "", 0},
		"half an answer":  {modeltest.Stream(modeltest.Text("Half"), modeltest.Drop()), 502, "connection", "Half", 0},
		"nothing but bad": {modeltest.Raw(200, "text/html", "<html>"), 502, "server", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := at(t, modeltest.Start(t, modeltest.Anthropic, row.reply)).Complete(t.Context(), "helper", hello)
			var failure *client.Error
			require.ErrorAs(t, err, &failure)
			require.Equal(t, row.status, failure.Status)
			require.Equal(t, row.retry, failure.RetryAfter)
			require.NotEmpty(t, failure.Body.Error)
			require.Equal(t, answer.RunID, failure.Body.RunID)

			require.Equal(t, wire.StateFailed, answer.State)
			require.Equal(t, row.errorType, answer.ErrorType)
			require.Equal(t, row.text, answer.Text)
			require.Equal(t, failure.Body.Error, answer.Error)
			require.Equal(t, []string{answer.Error}, answer.Errors)
		})
	}
}

func TestFailedRunIsNotAnError(t *testing.T) {
	payloads, err := all(t, at(t, modeltest.Start(t, modeltest.Anthropic, modeltest.Status(429))), hello)
	require.NoError(t, err)
	result := find[*wire.Result](t, payloads)
	require.True(t, result.IsError)
	require.Equal(t, "rate_limit", result.ErrorType)
}

const runID = "22222222-2222-4222-8222-222222222222"

func TestCancelledRuns(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Half"), modeltest.Hang())))
	c := at(t, up)

	type outcome struct {
		answer wire.RunResponse
		err    error
	}
	over := make(chan outcome, 1)
	go func() {
		answer, err := c.Complete(context.WithoutCancel(t.Context()), "helper", wire.RunRequest{Message: "hello", RunID: new(runID)})
		over <- outcome{answer, err}
	}()
	up.Await(t, 1)
	cancelling, err := c.Cancel(t.Context(), runID)
	require.NoError(t, err)
	require.Equal(t, wire.CancelResponse{RunID: runID, State: wire.StateCancelling}, cancelling)
	end := <-over
	require.NoError(t, end.err, "a cancel is not a failure")
	require.Equal(t, wire.StateCancelled, end.answer.State)
	require.Equal(t, wire.ReasonClientRequest, end.answer.Reason)

	again, err := c.Cancel(t.Context(), runID)
	require.NoError(t, err)
	require.Equal(t, wire.CancelResponse{RunID: runID, State: wire.StateCancelled, Reason: wire.ReasonClientRequest}, again)

	var payloads []wire.Payload
	for ev, err := range c.Run(t.Context(), "helper", hello) {
		require.NoError(t, err)
		payloads = append(payloads, ev.Payload)
		if _, ok := ev.Payload.(*wire.PartialMessage); ok {
			_, err := c.Cancel(t.Context(), find[*wire.System](t, payloads).RunID)
			require.NoError(t, err)
		}
	}
	require.Equal(t, wire.ReasonClientRequest, find[*wire.Cancelled](t, payloads).Reason)
	require.Equal(t, "done", payloads[len(payloads)-1].EventName())
}

func TestCancelThatComesTooLate(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Hi.")), modeltest.Status(500))
	c := at(t, up)
	for _, want := range []wire.State{wire.StateCompleted, wire.StateFailed} {
		run, _ := c.Complete(t.Context(), "helper", hello)
		require.Equal(t, want, run.State)
		answer, err := c.Cancel(t.Context(), run.RunID)
		var late *client.Error
		require.ErrorAs(t, err, &late)
		require.Equal(t, http.StatusConflict, late.Status)
		require.Equal(t, wire.CancelResponse{RunID: run.RunID, State: want}, answer)
	}
	_, err := c.Cancel(t.Context(), runID)
	require.EqualError(t, err, "runtime responded with 404: Run not found")
}

func TestDeleteSession(t *testing.T) {
	gate := make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Text("Hi.")), modeltest.Stream(modeltest.Gate(gate), modeltest.Text("Hi.")))
	c := at(t, up)
	first, err := c.Complete(t.Context(), "helper", hello)
	require.NoError(t, err)
	s, err := c.Open(t.Context(), "helper", wire.RunRequest{Message: "hello", SessionID: &first.SessionID})
	require.NoError(t, err)
	var busy *client.Error
	require.ErrorAs(t, c.DeleteSession(t.Context(), first.SessionID), &busy)
	require.Equal(t, http.StatusConflict, busy.Status)
	require.Equal(t, wire.ErrorBody{Error: "Session busy", SessionID: first.SessionID}, busy.Body)
	require.ErrorIs(t, busy, client.ErrSessionBusy)
	close(gate)
	for ev, err := s.Next(); ev.Type != "done"; ev, err = s.Next() {
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	for _, id := range []string{first.SessionID, first.SessionID, "unknown", ".."} {
		require.NoError(t, c.DeleteSession(t.Context(), id))
	}
	_, err = c.Open(t.Context(), "helper", wire.RunRequest{Message: "hello", SessionID: &first.SessionID, RequireSession: true})
	require.ErrorIs(t, err, client.ErrUnknownSession)
	require.NotErrorIs(t, err, client.ErrSessionBusy)
	older := raw(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	require.Error(t, older.DeleteSession(t.Context(), "x"), "nothing was deleted")
}

func TestHealthAndAgents(t *testing.T) {
	rt := host(t, nil, func(c *runtime.Config) {
		c.Agents = append(c.Agents, agent.Agent{ID: "keyless", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolOpenAI}})
	})
	c := connect(t, listen(t, rt).URL)
	health, err := c.Health(t.Context())
	require.NoError(t, err)
	require.Equal(t, wire.Health{Status: "degraded", Agents: 2, UptimeMs: health.UptimeMs, Version: "v1.2.3"}, health)

	agents, err := c.Agents(t.Context())
	require.NoError(t, err)
	require.NotZero(t, agents[0].ToolCount)
	require.Equal(t, []wire.AgentSummary{
		{ID: "helper", Name: "Helper", Model: "m", Status: "ready", ToolCount: agents[0].ToolCount},
		{ID: "keyless", Name: "keyless", Model: "m", Status: "unavailable"},
	}, agents)

	detail, err := c.Agent(t.Context(), "keyless")
	require.NoError(t, err)
	require.Equal(t, wire.AgentDetail{ID: "keyless", Name: "keyless", Model: "m", Status: "unavailable",
		MaxTurns: 10, Sandbox: wire.SandboxStatus{Mode: "auto", Reason: "the agent is unavailable"}}, detail)
	_, err = c.Agent(t.Context(), "nobody")
	require.EqualError(t, err, "runtime responded with 404: Agent not found")
}

func TestAPIKey(t *testing.T) {
	s := listen(t, host(t, talker(t), func(c *runtime.Config) { c.APIKeys = []string{"one", "two"} }))
	for name, row := range map[string]struct{ key, want string }{
		"the first":  {"one", ""},
		"the second": {"two", ""},
		"none":       {"", "runtime responded with 401: Unauthorized (missing x-api-key header)"},
		"wrong":      {"three", "runtime responded with 401: Unauthorized (invalid api key)"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := client.New(client.Config{BaseURL: s.URL, APIKey: row.key})
			require.NoError(t, err)
			_, listed := c.Agents(t.Context())
			_, ran := all(t, c, hello)
			if row.want == "" {
				require.NoError(t, listed)
				require.NoError(t, ran)
			} else {
				require.EqualError(t, listed, row.want)
				require.EqualError(t, ran, row.want)
			}
			_, err = c.Health(t.Context())
			require.NoError(t, err, "health needs no key")
		})
	}
}

func TestBaseURLs(t *testing.T) {
	rt := host(t, talker(t), nil)
	mux := http.NewServeMux()
	mux.Handle("/", rt)
	mux.Handle("/ai/v2/", http.StripPrefix("/ai/v2", rt))
	s := listen(t, mux)
	for _, suffix := range []string{"", "/", "/ai/v2", "/ai/v2/", "/ai/v2//"} {
		t.Run(suffix, func(t *testing.T) {
			c := connect(t, s.URL+suffix)
			_, err := c.Health(t.Context())
			require.NoError(t, err)
			run, err := c.Complete(t.Context(), "helper", hello)
			require.NoError(t, err)
			require.Equal(t, wire.StateCompleted, run.State)
			payloads, err := all(t, c, hello)
			require.NoError(t, err)
			find[*wire.Done](t, payloads)
		})
	}
}

func TestInvalidBaseURLs(t *testing.T) {
	for _, base := range []string{
		"", "localhost:3000", "127.0.0.1:3000", "/v1", "ftp://host", "http://", "http://host/%zz", "http://host?planted",
		"http://host#planted",
	} {
		_, err := client.New(client.Config{BaseURL: base})
		require.ErrorContains(t, err, "create runtime client: the base URL ", base)
		require.NotContains(t, err.Error(), "planted", "it may hold a secret")
	}
}

func TestIDsAreOnePathSegment(t *testing.T) {
	var asked string
	c := raw(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.RequestURI
		_, _ = io.WriteString(w, "{}")
	})
	for id, want := range map[string]string{
		"helper":       "helper",
		"a/b":          "a%2Fb",
		"../../x":      "..%2F..%2Fx",
		"a?b=c#d":      "a%3Fb=c%23d",
		"50% \r\nX: y": "50%25%20%0D%0AX:%20y",
		"..":           "%20..",
		".":            "%20.",
		"":             "%20",
		"é":            "%C3%A9",
	} {
		_, _ = c.Agent(t.Context(), id)
		require.Equal(t, "GET /v1/agents/"+want, asked)
		_, _ = c.Complete(t.Context(), id, hello)
		require.Equal(t, "POST /v1/agents/"+want+"/runs", asked)
		_ = c.DeleteSession(t.Context(), id)
		require.Equal(t, "DELETE /v1/sessions/"+want, asked)
		_, _ = c.Cancel(t.Context(), id)
		require.Equal(t, "POST /v1/runs/"+want+"/cancel", asked)
	}
}

func TestDotIDsAreNotFound(t *testing.T) {
	c := at(t, nil)
	for _, id := range []string{"", ".", "..", " ", "a/b"} {
		for _, call := range []func() error{
			func() error { _, err := c.Agent(t.Context(), id); return err },
			func() error { _, err := c.Complete(t.Context(), id, hello); return err },
			func() error { _, err := c.Cancel(t.Context(), id); return err },
		} {
			var failure *client.Error
			require.ErrorAs(t, call(), &failure)
			require.Equal(t, http.StatusNotFound, failure.Status, id)
		}
	}
}
