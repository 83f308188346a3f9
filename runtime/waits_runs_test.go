package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// The client executes its own tools, which are offered to the model in its runs only.
func TestClientTools(t *testing.T) {
	const tools = `,"clientTools":[{"name":"pick","description":"Picks a date.","inputSchema":{"type":"object","properties":{"days":{"type":"integer"}},"required":["days"]}}]`
	w, up := waiting(t, nil, callOf("pick", `{"days":"2"}`, "pick", `{"days":3}`), callOf("pick", `{}`), callOf("pick", `{"days":1}`), done())
	first := w.ask(t, tools)
	require.Len(t, first.Pending, 2)
	require.Equal(t, wire.Pending{ID: first.Pending[0].ID, Kind: "client_tool", ToolName: "pick", ToolUseID: "t1", Input: json.RawMessage(`{"days":2}`)}, first.Pending[0])
	require.Contains(t, string(up.Requests()[0].Body), `"description":"Picks a date."`)
	_, second := w.blocking(t, strings.TrimSuffix(answersTo(first, `"output":"2026-01-02"`, `"output":"no","isError":true`), "}")+tools+"}")
	results := resultsIn(t, up.Requests()[1])
	require.Contains(t, results["t1"], "2026-01-02")
	require.Contains(t, results["t2"], "no")
	require.Contains(t, string(up.Requests()[1].Body), `"is_error":true`)
	require.Contains(t, string(up.Requests()[2].Body), "does not match the schema of pick", "the client gets valid inputs only")
	require.Len(t, second.Pending, 1, second.Error)
	third := w.answer(t, second, `"output":""`)
	require.Equal(t, "Done.", third.Text)
	require.NotContains(t, string(up.Requests()[3].Body), "Picks a date.", "the run has no client tools")
}

func TestRulesMatchClientTools(t *testing.T) {
	const body = `{"message":"go",` + allInputs + `,"clientTools":[{"name":"pick"}]}`
	for name, row := range map[string]struct {
		change func(*agent.Agent)
		want   string
	}{
		"denied":    {func(a *agent.Agent) { a.DisallowedTools = []string{"pick"} }, "disallowedTools denies this call"},
		"unlisted":  {func(a *agent.Agent) { a.AllowedTools = []string{"Read"} }, "allowedTools does not list this tool"},
		"plan":      {func(a *agent.Agent) { a.PermissionMode = "plan" }, "the mode plan"},
		"listed":    {func(a *agent.Agent) { a.AllowedTools = []string{"pick"} }, ""},
		"bypassing": {func(a *agent.Agent) { a.PermissionMode = "bypassPermissions" }, ""},
		"default":   {func(*agent.Agent) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, up := waiting(t, func(c *runtime.Config) { row.change(&c.Agents[0]) }, callOf("pick", `{}`), done())
			_, res := w.blocking(t, body)
			if row.want != "" {
				require.Equal(t, "Done.", res.Text)
				require.Contains(t, resultsIn(t, up.Requests()[1])["t1"], row.want)
				require.NotContains(t, string(up.Requests()[0].Body), `"name":"pick"`)
				return
			}
			require.Len(t, res.Pending, 1)
			require.Contains(t, string(up.Requests()[0].Body), `"name":"pick"`)
			w.start(t, up, func(c *runtime.Config) { c.Agents[0].DisallowedTools = []string{"pick"} })
			require.Contains(t, w.refused(t, http.StatusConflict, answersTo(res, `"output":"x"`)), "Call changed")
		})
	}
}

// asking is a tool that asks for a name, and once more if it is empty.
func asking(t *testing.T) tool.Tool {
	return tool.New(tool.Spec{Name: "greet"}, func(_ context.Context, call tool.Call) (tool.Result, error) {
		q := call.Question
		if q == nil {
			if !call.CanAsk {
				return tool.Result{Output: "Hello, nobody."}, nil
			}
			return tool.Result{Question: &tool.Question{Server: "people", Message: "Who?", Schema: json.RawMessage(`{"type":"object"}`), State: []byte("1")}}, nil
		}
		require.Equal(t, "people", q.Server)
		if q.Action == "accept" && string(q.Content) == `{"name":""}` {
			return tool.Result{Question: &tool.Question{Server: "people", Message: "Really?", URL: "https://example.org", State: append(q.State, '2')}}, nil
		}
		return tool.Result{Output: fmt.Sprintf("%s %s %s", q.Action, q.Content, q.State)}, nil
	})
}

// A tool may ask something, also in a call that was approved. It is called again with the answer
// and its state, by another process.
func TestQuestions(t *testing.T) {
	with := func(c *runtime.Config) { c.Tools = []tool.Tool{asking(t)} }
	w, up := waiting(t, with, callOf("greet", `{}`, "Read", `{"file_path":"a"}`), done())
	first := w.ask(t, "")
	require.Equal(t, "approval", first.Pending[0].Kind)
	second := w.answer(t, first, approve)
	require.Len(t, second.Pending, 1)
	p := second.Pending[0]
	require.Equal(t, wire.Pending{
		ID: p.ID, Kind: "question", ToolName: "greet", ToolUseID: "t1", Input: json.RawMessage(`{}`),
		Reason: "Who?", Schema: json.RawMessage(`{"type":"object"}`), Server: "people",
	}, p)
	w.start(t, up, with)
	third := w.answer(t, second, `"action":"accept","content":{"name":""}`)
	require.Equal(t, "https://example.org", third.Pending[0].URL)
	require.Equal(t, "Done.", w.answer(t, third, `"action":"decline"`).Text)
	results := resultsIn(t, up.Requests()[1])
	require.Contains(t, results["t1"], "decline  12")
	require.Contains(t, results["t2"], "a does not exist")
}

func TestNobodyCanAnswerAQuestion(t *testing.T) {
	insists := tool.New(tool.Spec{Name: "insist", ReadOnly: true}, func(_ context.Context, call tool.Call) (tool.Result, error) {
		require.Equal(t, call.ID == "t3", call.CanAsk)
		return tool.Result{Question: &tool.Question{Message: strings.Repeat("x", 4<<20)}}, nil
	})
	w, up := waiting(t, func(c *runtime.Config) {
		c.Tools = []tool.Tool{asking(t), insists}
		c.Agents[0].PermissionMode = "bypassPermissions"
	},
		callOf("greet", `{}`, "insist", `{}`), done(), modeltest.Stream(modeltest.ToolCall("t3", "insist", `{}`)), done())
	_, res := w.blocking(t, `{"message":"go"}`)
	require.Equal(t, "Done.", res.Text)
	require.Contains(t, resultsIn(t, up.Requests()[1])["t1"], "Hello, nobody.")
	require.Contains(t, resultsIn(t, up.Requests()[1])["t2"], "The call needs an answer to a question: there is nobody who can answer it.")
	_, res = w.blocking(t, `{"message":"go",`+allInputs+`}`)
	require.Equal(t, "Done.", res.Text)
	require.Contains(t, resultsIn(t, up.Requests()[3])["t3"], "too long to be shown")
}

// Questions of calls that ran in parallel wait together, next to the results of the others.
func TestParallelQuestions(t *testing.T) {
	ask := tool.New(tool.Spec{Name: "ask", ReadOnly: true}, func(_ context.Context, call tool.Call) (tool.Result, error) {
		if call.Question != nil {
			return tool.Result{Output: "answered " + call.ID}, nil
		}
		return tool.Result{Question: &tool.Question{Message: call.ID}}, nil
	})
	w, up := waiting(t, func(c *runtime.Config) { c.Tools = []tool.Tool{ask} },
		callOf("ask", `{}`, "Glob", `{"pattern":"*"}`, "ask", `{}`, "Bash", appendOne), done())
	first := w.ask(t, "")
	require.Len(t, first.Pending, 3)
	require.Equal(t, "t1 t3", first.Pending[0].Reason+" "+first.Pending[1].Reason)
	require.Equal(t, "approval", first.Pending[2].Kind)
	w.answer(t, first, `"action":"accept"`, `"action":"accept"`, approve)
	results := resultsIn(t, up.Requests()[1])
	require.Len(t, results, 4)
	require.Contains(t, results["t3"], "answered t3")
	require.Equal(t, "one\n", w.read(t, "log"))
}

// What is shown is never shortened and has every character. What is too long is denied.
func TestWhatIsShownIsWhole(t *testing.T) {
	command := "echo '\x1b[2J\u202e\u2066 <b>\u0000'"
	hostile, err := json.Marshal(map[string]string{"command": command})
	require.NoError(t, err)
	long := strings.Repeat("0123456789abcde\n", 64<<10) // 1 MiB
	write := func(n int) string {
		text, err := json.Marshal(map[string]string{"file_path": "f", "content": strings.Repeat(long, n)})
		require.NoError(t, err)
		return string(text)
	}
	w, up := waiting(t, func(c *runtime.Config) { c.Limits.MaxResponseBytes = 16 << 20 },
		callOf("Bash", string(hostile)), callOf("Write", write(1)), callOf("Write", write(2)), done())
	require.Equal(t, command, w.ask(t, "").Pending[0].Executed)

	events := w.open(t.Context(), t, `{"message":"go",`+allInputs+`}`).rest()
	result := events[len(events)-2]
	require.Equal(t, "result", result.name, "it fits into an event")
	pending := result.data["pending"].([]any)[0].(map[string]any)
	require.Equal(t, "f (a new file)\n@@ -1,0 +1,65536 @@\n+"+strings.ReplaceAll(strings.TrimSuffix(long, "\n"), "\n", "\n+")+"\n", pending["executed"])

	_, denied := w.blocking(t, `{"message":"go",`+allInputs+`}`)
	require.Equal(t, "Done.", denied.Text, denied.Error)
	require.Contains(t, resultsIn(t, up.Requests()[3])["t1"], "the call is too long to be shown to a person")
	require.NoFileExists(t, filepath.Join(w.cwd, "f"))
}

// Bytes that a person cannot be shown are not approved.
func TestBytesThatCannotBeShown(t *testing.T) {
	w, up := waiting(t, nil, callOf("Edit", `{"file_path":"latin","old_string":"a","new_string":"b"}`), done())
	require.NoError(t, os.WriteFile(filepath.Join(w.cwd, "latin"), []byte("\xe9a\n"), 0o600))
	_, res := w.blocking(t, `{"message":"go",`+allInputs+`}`)
	require.Equal(t, "Done.", res.Text)
	require.Contains(t, resultsIn(t, up.Requests()[1])["t1"], "bytes that are not UTF-8")
	require.Equal(t, "\xe9a\n", w.read(t, "latin"))
}

// Of many calls, as many wait at once as an event has room for.
func TestManyCallsWaitInTurns(t *testing.T) {
	var calls []string
	for i := range 70 {
		calls = append(calls, "Bash", fmt.Sprintf(`{"command":"echo %d >> log"}`, i))
	}
	text, err := json.Marshal(map[string]string{"file_path": "f", "content": strings.Repeat("x", 1<<20)})
	require.NoError(t, err)
	large := []string{"Write", string(text), "Write", string(text)}
	w, _ := waiting(t, nil, callOf(calls...), done(), callOf(large...), done())
	res := w.ask(t, "")
	require.Len(t, res.Pending, 64)
	all := make([]string, 64)
	for i := range all {
		all[i] = approve
	}
	res = w.answer(t, res, all...)
	require.Len(t, res.Pending, 6)
	require.Equal(t, "Done.", w.answer(t, res, all[:6]...).Text)
	require.Len(t, strings.Fields(w.read(t, "log")), 70)

	res = w.ask(t, "")
	require.Len(t, res.Pending, 1, "two do not fit")
	res = w.answer(t, res, approve)
	require.Len(t, res.Pending, 1)
	require.Equal(t, "Done.", w.answer(t, res, approve).Text)
}

// The turns of each run are limited, and so a model that asks again and again.
func TestAModelThatAsksAgain(t *testing.T) {
	w, up := waiting(t, nil, modeltest.Repeat(callOf("Bash", appendOne)))
	res := w.ask(t, "")
	for range 5 {
		before := res.Pending[0].ID
		res = w.answer(t, res, reject)
		require.Equal(t, 1, res.NumTurns, "each run has its own count")
		require.NotEqual(t, before, res.Pending[0].ID)
	}
	_, last := w.blocking(t, strings.TrimSuffix(answersTo(res, approve), "}")+`,"maxTurns":1}`)
	require.Equal(t, "error_max_turns", last.ErrorType)
	require.Equal(t, "one\n", w.read(t, "log"))
	require.Len(t, up.Requests(), 7)
}

// The answers of a run that is cancelled are used, and the model learns that the call was
// interrupted.
func TestCancelOfARunWithAnswers(t *testing.T) {
	w, up := waiting(t, nil, callOf("Bash", `{"command":"echo one >> log; touch started; exec sleep 1000"}`), done())
	first := w.ask(t, "")
	s := w.open(t.Context(), t, answersTo(first, approve))
	id := s.until("system").data["runId"].(string)
	require.Equal(t, "answered", s.until("system").data["subtype"])
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(w.cwd, "started")); return err == nil }, time.Minute, time.Millisecond)
	w.cancel(t, id)
	s.until("cancelled")
	s.rest()
	w.refused(t, http.StatusConflict, answersTo(first, approve))
	_, res := w.blocking(t, `{"message":"And?","sessionId":"`+first.SessionID+`"}`)
	require.Equal(t, "Done.", res.Text)
	require.Contains(t, resultsIn(t, up.Requests()[1])["t1"], "interrupted before it completed")
	require.Equal(t, "one\n", w.read(t, "log"))
}

// Another replica with the same store executes the answer.
func TestAnAnswerAtAnotherReplica(t *testing.T) {
	w, up := waiting(t, nil, callOf("Bash", appendOne), modeltest.Repeat(done()))
	first := w.ask(t, "")
	one := w.bench
	w.start(t, up, nil)
	w.answer(t, first, approve)
	require.Equal(t, "one\n", w.read(t, "log"))
	require.Contains(t, one.do(t, "POST", runs, answersTo(first, approve), asJSON...).body, "Not waiting")
}

// A runtime whose agent has another model continues with the ids that this model accepts.
func TestAnAnswerAfterAnotherModel(t *testing.T) {
	w, _ := waiting(t, nil, callOf("Glob", `{"pattern":"*"}`, "Bash", appendOne))
	first := w.ask(t, "")
	up := modeltest.Start(t, modeltest.OpenAI, done())
	w.start(t, up, func(c *runtime.Config) {
		c.Agents[0].Model = "another"
		c.Agents[0].Provider = agent.Provider{Protocol: agent.ProtocolOpenAI, BaseURL: agent.Secret(up.URL), APIKey: "key"}
	})
	require.Equal(t, "Done.", w.answer(t, first, approve).Text)
	require.Equal(t, "one\n", w.read(t, "log"))
}

// A run with answers may summarise the conversation. The question of the user is not lost.
func TestCompactionInARunWithAnswers(t *testing.T) {
	words := strings.Repeat("word ", 3000)
	w, up := waiting(t, func(c *runtime.Config) { c.Agents[0].ContextWindow = 2000 },
		callOf("Bash", appendOne), modeltest.Stream(modeltest.Text("A summary.")), modeltest.Repeat(done()))
	_, first := w.blocking(t, `{"message":"The question. `+strings.Repeat("word ", 600)+`",`+allInputs+`}`)
	require.Len(t, first.Pending, 1, first.Error)
	_, second := w.blocking(t, strings.TrimSuffix(answersTo(first, approve+`,"input":{"command":"echo '`+words+`' | tee log"}`), "}")+"}")
	require.EqualValues(t, "completed", second.State, second.Error)
	last := up.Requests()[len(up.Requests())-1]
	require.Contains(t, string(last.Body), "A summary.")
	require.Contains(t, string(last.Body), "The question.")
}

// History seeds no session that waits.
func TestHistoryNextToAnswers(t *testing.T) {
	w, up := waiting(t, nil, callOf("Bash", appendOne), done())
	first := w.ask(t, "")
	_, res := w.blocking(t, strings.TrimSuffix(answersTo(first, approve), "}")+`,"requireSession":true,"history":`+history+`}`)
	require.Equal(t, "Done.", res.Text)
	require.NotContains(t, string(up.Requests()[1].Body), "I am Ada.")
}

// The transcript has what waited, and who answered what and when.
func TestTranscriptOfAnswers(t *testing.T) {
	w, _ := waiting(t, nil, callOf("Bash", appendOne), done())
	first := w.ask(t, "")
	second := w.answer(t, first, reject+`,"reason":"No."`)
	var page wire.Transcript
	require.NoError(t, json.Unmarshal([]byte(w.do(t, "GET", "/v1/sessions/"+first.SessionID, "").body), &page))
	var required, ended, answered int
	for i, e := range page.Entries {
		require.EqualValues(t, i+1, e.Seq)
		switch event := string(e.Event); {
		case strings.Contains(event, `"permission_required"`):
			required++
			require.Contains(t, event, first.Pending[0].ID)
			require.Contains(t, event, `"source":"permissionMode","rule":"default"`)
		case strings.Contains(event, `"subtype":"input_required"`):
			ended++
			require.Contains(t, event, `"executed":"echo one >> log"`)
		case strings.Contains(event, `"answered"`):
			answered++
			require.Equal(t, second.RunID, e.RunID)
			require.False(t, e.Time.IsZero())
			require.JSONEq(t, `{"type":"system","subtype":"answered","id":"`+first.Pending[0].ID+`","kind":"approval","decision":"reject","reason":"No.",
				"tool_name":"Bash","tool_use_id":"t1","digest":"8d3c32e00ec3d32f27946876c049f82b4db04f6eb10da3dd0a91c3074f4a2389"}`, event)
		}
	}
	require.Equal(t, []int{1, 1, 1}, []int{required, ended, answered})
}

// Sessions that wait have no goroutine and no memory of the runtime.
func TestSessionsThatWaitAreOnlyStored(t *testing.T) {
	const sessions = 200
	w, _ := waiting(t, nil, append(slices.Repeat([]modeltest.Reply{callOf("Bash", appendOne)}, sessions), modeltest.Repeat(done()))...)
	var last wire.RunResponse
	goroutines, before := measured()
	for range sessions {
		last = w.ask(t, "")
	}
	after, waiting := measured()
	require.Less(t, after, goroutines+20)
	for range sessions {
		_, res := w.blocking(t, `{"message":"go"}`)
		require.Equal(t, "Done.", res.Text)
	}
	_, all := measured()
	each := (float64(waiting) - float64(before)) / sessions // with what the upstream and the registry of runs store
	ended := (float64(all) - float64(waiting)) / sessions
	t.Logf("%.0f bytes for a session that waits, %.0f for one that does not", each, ended)
	require.Less(t, each, ended+2048)
	w.answer(t, last, approve)
}

func measured() (goroutines int, heap uint64) {
	http.DefaultClient.CloseIdleConnections()
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return goruntime.NumGoroutine(), m.HeapAlloc
}
