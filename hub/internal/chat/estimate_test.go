package chat_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/internal/usage"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db/dbtest"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// text is an event with a part of an answer.
const text = "event: partial_message\ndata: {\"type\":\"partial_message\",\"partial\":{\"type\":\"text\",\"text\":\"Half\"}}\n\n"

// accepts is a runtime that accepts runs, sends a part of each, and closes the connection.
func accepts(events string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(events))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

// Answers whose runtime is killed count their reserves until the hard limit stops them, whatever
// was received of them.
func TestAnswersWithoutAReportUseTheBudget(t *testing.T) {
	t.Parallel()
	const usageOfOne = `event: assistant` + "\n" + `data: {"type":"assistant","uuid":"u","session_id":"s","parent_tool_use_id":null,"message":{"role":"assistant",` +
		`"content":[{"type":"text","text":"Half"}],"model":"m","stop_reason":"tool_use"},"usage":{"input_tokens":700,"output_tokens":500}}` + "\n\n"
	for name, row := range map[string]struct {
		events string
		tokens []float64
	}{
		"nothing":     {"", []float64{1000, 0}},
		"a text":      {text, []float64{999, 1}},
		"one message": {usageOfOne, []float64{700, 500}},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, nil, func(t *testing.T, s *server) {
				s.serve(accepts(row.events))
				s.limit(usage.OfAgent, "helper", wire.BudgetRequest{Hard: new(10_000.0), Reserve: new(1000.0)})
				ada := s.ada()
				runs := 0
				var path string
				for ; runs < 20; runs++ {
					path = session(ada)
					res := ada.Post(path+"/messages", object{"message": "hello"})
					if res.Status == http.StatusTooManyRequests {
						break
					}
				}
				require.Equal(t, map[bool]int{true: 10, false: 8}[row.tokens[1] < 500], runs)
				report := s.counted("agent")[0]
				require.EqualValues(t, runs, report["runs"])
				require.EqualValues(t, runs, report["estimates"])
				require.EqualValues(t, float64(runs)*row.tokens[0], report["inputTokens"])
				require.EqualValues(t, float64(runs)*row.tokens[1], report["outputTokens"])
				for _, one := range ada.Get(sessions).Items() {
					if all := messages(ada, sessions+"/"+one["id"].(string)); len(all) > 0 {
						used := all[1]["usage"].(object)
						require.Equal(t, []any{true, row.tokens[0], row.tokens[1]}, []any{used["estimated"], used["input_tokens"], used["output_tokens"]})
					}
				}
			})
		})
	}
}

// The run of a hub that was killed holds its reserve, and then counts it, marked as an estimate,
// whatever ends the run.
func TestAnswersOfAKilledHubUseTheBudget(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(s *server, path string){
		"the sweep": func(s *server, _ string) {
			require.Eventually(s.t, func() bool { return s.number(`SELECT COUNT(*) FROM chat_runs`) == 0 }, patience, 10*time.Millisecond)
		},
		"a cancel": func(s *server, path string) { s.ada().Post(path+"/cancel", nil).Want(http.StatusAccepted) },
		"a message": func(s *server, path string) { // it is rejected, and changes nothing
			s.ada().Post(path+"/messages", object{"message": "more"}).Error(http.StatusTooManyRequests, wire.RateLimited)
			require.Eventually(s.t, func() bool { return s.number(`SELECT COUNT(*) FROM chat_runs`) == 0 }, patience, 10*time.Millisecond)
		},
		"a deletion": func(s *server, path string) {
			s.ada().Delete(path).Want(http.StatusNoContent)
			require.Eventually(s.t, func() bool { return s.number(`SELECT COUNT(*) FROM chat_runs`) == 0 }, patience, 10*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, url string) {
				s := open(t, url, func(c *config) {
					if name == "a cancel" { // the sweep is not before it
						c.Relay.SaveEvery = time.Hour
					}
				})
				s.deploy(nil)
				s.limit(usage.OfAgent, "helper", wire.BudgetRequest{Hard: new(1000.0), Reserve: new(600.0)})
				path := session(s.ada())
				s.joins("killed")
				s.orphan(path, "killed")
				s.ada().Post(session(s.ada())+"/messages", object{"message": "hello"}).Error(http.StatusTooManyRequests, wire.RateLimited)
				s.removes("killed")
				s.ada().Post(session(s.ada())+"/messages", object{"message": "hello"}).Error(http.StatusTooManyRequests, wire.RateLimited)
				end(s, path)
				report := s.counted("agent")[0]
				require.Equal(t, []any{1.0, 600.0, 1.0}, []any{report["runs"], report["inputTokens"], report["estimates"]})
				s.ada().Post(session(s.ada())+"/messages", object{"message": "hello"}).Error(http.StatusTooManyRequests, wire.RateLimited)
				if name != "a deletion" {
					require.Equal(t, 600.0, messages(s.ada(), path)[1]["usage"].(object)["input_tokens"])
				}
			}, series...)
		})
	}
}

// The run of a deleted chat holds its reserve until it has ended, and then counts.
func TestTheReserveOfADeletedChat(t *testing.T) {
	each(t, nil, func(t *testing.T, s *server) {
		ended := make(chan struct{})
		end := sync.OnceFunc(func() { close(ended) })
		t.Cleanup(end)
		s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/cancel") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
			<-ended
		}))
		s.limit(usage.OfAgent, "helper", wire.BudgetRequest{Hard: new(1000.0), Reserve: new(600.0)})
		path := session(s.ada())
		answer := send(t, s.ada(), path, object{"message": "hello"})
		answer.until("partial_message")
		s.ada().Delete(path).Want(http.StatusNoContent)
		other := session(s.ada())
		s.ada().Post(other+"/messages", object{"message": "hello"}).Error(http.StatusTooManyRequests, wire.RateLimited)
		require.Equal(t, 1, s.number(`SELECT COUNT(*) FROM chat_runs`))
		end()
		answer.rest()
		require.Zero(t, s.number(`SELECT COUNT(*) FROM chat_runs`))
		report := s.counted("agent")[0]
		require.Equal(t, []any{1.0, 599.0, 1.0, 1.0}, []any{report["runs"], report["inputTokens"], report["outputTokens"], report["estimates"]})
		s.ada().Post(other+"/messages", object{"message": "hello"}).Error(http.StatusTooManyRequests, wire.RateLimited)
	})
}

// An answer that the hub ends because it is too long or takes too long has the tokens of its
// runtime.
func TestAnswersThatTheHubEndsAreCounted(t *testing.T) {
	t.Parallel()
	part := strings.Repeat("word ", 200<<10)
	for name, row := range map[string]struct {
		all    []modeltest.Reply
		config func(*config)
		output float64
	}{
		"too long": {
			[]modeltest.Reply{
				modeltest.Stream(modeltest.Text(part, part, part), modeltest.ToolCall("1", "Glob", `{"pattern":"*.none"}`)),
				modeltest.Stream(modeltest.Text(part, part), modeltest.Hang()),
			}, func(*config) {}, 5,
		},
		"takes too long": {
			[]modeltest.Reply{modeltest.Stream(modeltest.Text(part), modeltest.Hang())}, func(c *config) { c.Relay.RunTimeout = time.Second }, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, sqlite(t), row.config)
			s.deploy(modeltest.Start(t, modeltest.OpenAI, row.all...), func(a *agent.Agent) {
				a.Provider.Protocol = agent.ProtocolOpenAI
			})
			path := session(s.ada())
			require.Equal(t, "failed", last(say(t, s.ada(), path, strings.Repeat("ask ", 1000))))
			report := s.counted("agent")[0]
			require.Equal(t, []any{1.0, 1.0}, []any{report["runs"], report["estimates"]})
			require.GreaterOrEqual(t, report["inputTokens"], 1000.0)
			require.GreaterOrEqual(t, report["outputTokens"], row.output)
			require.Equal(t, report["outputTokens"], messages(s.ada(), path)[1]["usage"].(object)["output_tokens"])
		})
	}
}

// The text of a message in progress counts, with and without a limit, if the runtime is killed.
func TestTheTextOfAKilledRuntimeIsCounted(t *testing.T) {
	with(t, nil, func(t *testing.T, s *server) {
		s.serve(accepts(strings.Replace(text, "Half", strings.Repeat("word ", 800), 1)))
		path := session(s.ada())
		require.Equal(t, "failed", last(say(t, s.ada(), path, "hello")))
		report := s.counted("agent")[0]
		require.Equal(t, []any{1.0, 1.0, 1000.0}, []any{report["runs"], report["estimates"], report["outputTokens"]})
	})
}
