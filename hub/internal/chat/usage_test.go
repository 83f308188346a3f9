package chat_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// counted returns the rows of a report, without their costs.
func (s *server) counted(by string) []object {
	s.t.Helper()
	items := s.As("acme", "max", "admin").Get("/api/v1/admin/usage?by=" + by).Items()
	for _, item := range items {
		delete(item, "cost")
	}
	return items
}

// row returns a row of a report.
func row(runs, input, output float64, more ...any) object {
	r := object{"runs": runs, "inputTokens": input, "outputTokens": output, "cacheReadTokens": 0.0, "cacheWriteTokens": 0.0, "reasoningTokens": 0.0}
	for i := 0; i < len(more); i += 2 {
		r[more[i].(string)] = more[i+1]
	}
	return r
}

// A run counts with its tokens, also if it is cancelled or its session is deleted before the end. A
// message that no runtime accepted does not count.
func TestTheTokensOfAnswersAreCounted(t *testing.T) {
	up := func(t *testing.T) *modeltest.Upstream {
		return modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("One.")),
			modeltest.Stream(modeltest.Usage(model.Usage{InputTokens: 3, OutputTokens: 4}), modeltest.Text("Half."), modeltest.Hang()),
			modeltest.Stream(modeltest.Text("Half."), modeltest.Hang()))
	}
	each(t, up, func(t *testing.T, s *server) {
		ada, bob := s.ada(), s.As("acme", "bob", "member")
		say(t, ada, session(ada), "hello")
		require.Equal(t, []object{row(1, 10, 5, "agentName", "helper", "userId", "id-ada", "userName", "ada", "model", "m")}, s.counted("agent,user,model"))

		path := session(bob)
		answer := send(t, bob, path, object{"message": "hello"})
		answer.until("partial_message")
		bob.Post(path+"/cancel", nil).Want(http.StatusAccepted)
		answer.rest()
		require.EqualValues(t, 2, s.counted("agent")[0]["runs"])

		path = session(bob)
		answer = send(t, bob, path, object{"message": "hello"})
		answer.until("partial_message")
		bob.Delete(path).Want(http.StatusNoContent)
		answer.cancel()
		require.Eventually(t, func() bool { return s.counted("agent")[0]["runs"] == 3.0 }, patience, 20*time.Millisecond)

		e := *s.endpoint.Load()
		e.APIKey = "wrong"
		s.endpoint.Store(&e)
		bob.Post(session(bob)+"/messages", object{"message": "hello"}).Error(http.StatusBadGateway, code.UpstreamFailed)
		require.EqualValues(t, 3, s.counted("agent")[0]["runs"])
	})
}

// Subagents with another model, reasoning and the cache count as such.
func TestTheTokensOfModels(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite(t))
	tokens := modeltest.Usage(model.Usage{InputTokens: 100, CacheReadInputTokens: 20, OutputTokens: 9, ReasoningTokens: 7})
	up := modeltest.Start(t, modeltest.OpenAI,
		modeltest.Stream(tokens, modeltest.ToolCall("t1", "Task", `{"description":"d","prompt":"p","subagent_type":"scout"}`)),
		modeltest.Stream(modeltest.Text("Nothing is here.")),
		modeltest.Stream(modeltest.Text("It is empty.")))
	s.deploy(nil, func(a *agent.Agent) {
		a.Provider = agent.Provider{Protocol: agent.ProtocolOpenAI, BaseURL: agent.Secret(up.URL), APIKey: "upstream-key"}
		a.Subagents = map[string]agent.Subagent{"scout": {Description: "Looks around.", Prompt: "You scout.", Model: "small"}}
	})
	ada := s.ada()
	path := session(ada)
	require.Equal(t, "completed", last(say(t, ada, path, "look")))
	require.Equal(t, object{
		"input_tokens": 120.0, "output_tokens": 19.0, "cache_creation_input_tokens": 0.0, "cache_read_input_tokens": 20.0, "reasoning_tokens": 7.0,
	}, messages(ada, path)[1]["usage"])
	require.ElementsMatch(t, []object{
		row(1, 110, 14, "model", "m", "cacheReadTokens", 20.0, "reasoningTokens", 7.0), row(0, 10, 5, "model", "small"),
	}, s.counted("model"))
}

// A run is counted once although the COMMIT of its end is lost.
func TestTheTokensOfALostCommit(t *testing.T) {
	t.Parallel()
	for name, commits := range map[string]bool{"before it": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLossy(t)
			l.commits = commits
			s := open(t, l.url, quiet)
			s.deploy(modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("More."))))
			ada := s.ada()
			path := session(ada)
			l.marker.Store(new("More."))
			require.Equal(t, "completed", last(say(t, ada, path, "hello")))
			require.EqualValues(t, 1, l.lost.Load())
			require.Equal(t, []object{row(1, 10, 5, "model", "m")}, s.counted("model"))
		})
	}
}

// The run of a hub whose session another hub has taken over counts: its tokens were used.
func TestTheTokensOfALostLease(t *testing.T) {
	each(t, hanging, func(t *testing.T, s *server) {
		ada := s.ada()
		answer := send(t, ada, session(ada), object{"message": "hello"})
		answer.until("partial_message")
		s.exec(`DELETE FROM chat_runs`)
		require.Contains(t, strings.Join(names(answer.rest()), " "), "error")
		require.EqualValues(t, 1, s.counted("model")[0]["runs"])
	})
}
