package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const appendOne = `{"command":"echo one >> log"}`

// refused sends answers that do not count, and requires that the session still waits.
func (w *waiter) refused(t *testing.T, status int, body string) string {
	t.Helper()
	res := w.do(t, "POST", runs, body, asJSON...)
	require.Equal(t, status, res.status, res.body)
	require.Empty(t, res.header.Get("X-Run-Id"))
	return res.body
}

func TestARejectedCallIsNotExecuted(t *testing.T) {
	w, up := waiting(t, nil, callOf("Bash", appendOne), done())
	res := w.answer(t, w.ask(t, ""), reject+`,"reason":"Not on a Friday."`)
	require.Equal(t, "Done.", res.Text)
	require.NoFileExists(t, filepath.Join(w.cwd, "log"))
	require.Contains(t, resultsIn(t, up.Requests()[1])["t1"], "The user rejected this call, and it did not run. The reason: Not on a Friday.")
}

func TestAnAnswerCountsOnce(t *testing.T) {
	w, _ := waiting(t, nil, callOf("Bash", appendOne), modeltest.Repeat(done()))
	first := w.ask(t, "")
	w.answer(t, first, approve)
	want := `{"error":"Not waiting","sessionId":"` + first.SessionID + `"}`
	require.JSONEq(t, want, w.refused(t, http.StatusConflict, answersTo(first, approve)))
	require.JSONEq(t, want, w.refused(t, http.StatusConflict, answersTo(first, reject)))
	require.Equal(t, "one\n", w.read(t, "log"))
}

// Two requests that answer at once: one is executed.
func TestOneOfManyAnswersCounts(t *testing.T) {
	w, _ := waiting(t, nil, callOf("Bash", appendOne), modeltest.Repeat(done()))
	first := w.ask(t, "")
	status := make(chan string, 8)
	var all sync.WaitGroup
	for range cap(status) {
		all.Go(func() {
			res := w.do(t, "POST", runs, answersTo(first, approve), asJSON...)
			var body wire.ErrorBody
			_ = json.Unmarshal([]byte(res.body), &body)
			status <- fmt.Sprint(res.status, " ", body.Error)
		})
	}
	all.Wait()
	close(status)
	count := map[string]int{}
	for s := range status {
		count[s]++
	}
	require.Equal(t, 1, count["200 "], count)
	require.Equal(t, 7, count["409 Session busy"]+count["409 Not waiting"], count)
	require.Equal(t, "one\n", w.read(t, "log"))
}

func TestAnswersMatchWhatWaits(t *testing.T) {
	w, _ := waiting(t, nil, callOf("Bash", appendOne, "Bash", `{"command":"echo two >> log"}`), callOf("Bash", appendOne), done())
	first := w.ask(t, "")
	require.Len(t, first.Pending, 2)
	other := w.ask(t, "")
	for name, row := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"one is missing":           {400, answersTo(first, approve), "Invalid request: answers has none for " + first.Pending[1].ID},
		"of a client tool":         {400, answersTo(first, approve, `"output":"x"`), "is not one of the kind approval"},
		"of a question":            {400, answersTo(first, approve, `"action":"accept"`), "is not one of the kind approval"},
		"an id of another session": {409, strings.Replace(answersTo(first, approve, approve), first.Pending[0].ID, other.Pending[0].ID, 1), "Not waiting"},
		"another session":          {409, strings.Replace(answersTo(first, approve, approve), first.SessionID, other.SessionID, 1), "Not waiting"},
		"one more":                 {409, strings.Replace(answersTo(first, approve, approve), `"answers":[`, `"answers":[{"id":"x",`+approve+`},`, 1), "Not waiting"},
		"no session":               {400, strings.Replace(answersTo(first, approve, approve), `"sessionId"`, `"metadata"`, 1), "Invalid request"},
		"an unknown session":       {409, strings.Replace(answersTo(first, approve, approve), first.SessionID, "unknown", 1), "Unknown session"},
	} {
		t.Run(name, func(t *testing.T) {
			body := w.refused(t, row.status, row.body)
			require.Contains(t, body, row.want)
			var got wire.ErrorBody
			require.NoError(t, json.Unmarshal([]byte(body), &got))
			if strings.Contains(name, "missing") || strings.Contains(name, "of a ") {
				require.Equal(t, first.Pending, got.Pending)
			}
		})
	}
	require.NoFileExists(t, filepath.Join(w.cwd, "log"))
	w.answer(t, first, approve, approve)
	require.Equal(t, "one\ntwo\n", w.read(t, "log"))
}

func TestInvalidInputs(t *testing.T) {
	w, _ := waiting(t, func(c *runtime.Config) { c.StoreOnRequest = true })
	tools := func(list string) string {
		return `{"message":"x","store":true,` + allInputs + `,"clientTools":[` + list + `]}`
	}
	answer := func(fields string) string { return `{"sessionId":"s","answers":[{"id":"a",` + fields + `}]}` }
	for body, want := range map[string]string{
		`{"message":"x","inputs":["approval"],"store":false}`:                                "a run with inputs is stored",
		`{"message":"x","inputs":["approval"]}`:                                              "a run with inputs is stored",
		`{"message":"x","store":true,"inputs":["approve"]}`:                                  "inputs[0] must be approval, client_tool or question",
		`{"message":"x","clientTools":[{"name":"a"}]}`:                                       "clientTools need client_tool in inputs",
		`{"message":" ","sessionId":"s"}`:                                                    "message is required",
		`{"answers":[{"id":"a","decision":"approve"}]}`:                                      "answers need a sessionId",
		tools(`{"name":"bash"}`):                                                             "clientTools[0].name is that of a tool of the agent",
		tools(`{"name":"a"},{"name":"TASK"}`):                                                "clientTools[1].name is that of a tool of the agent",
		tools(`{"name":"mcp__x__y"}`):                                                        "must not begin with mcp__",
		tools(`{"name":"MCP__x"}`):                                                           "must not begin with mcp__",
		tools(`{"name":"pick"},{"name":"Pick"}`):                                             "differs from another one only by letter case",
		tools(`{"name":"a.b"}`):                                                              "clientTools[0].name must be 1 to 64 of",
		tools(`{"name":""}`):                                                                 "clientTools[0].name must be 1 to 64 of",
		tools(`{"name":"a","inputSchema":[]}`):                                               "clientTools[0].inputSchema must be an object",
		tools(`{"name":"a","description":"` + strings.Repeat("x", 256<<10) + `"}`):           "at most 262144 bytes together",
		tools(strings.TrimSuffix(strings.Repeat(`{"name":"a"},`, 65), ",")):                  "clientTools must have at most 64 entries",
		answer(`"decision":"maybe"`):                                                         "answers[0].decision must be approve or reject",
		answer(`"action":"maybe"`):                                                           "answers[0].action must be accept, decline or cancel",
		answer(`"reason":"x"`):                                                               "answers[0].decision, output or action is required",
		answer(approve + `,"output":"x"`):                                                    "decision excludes",
		answer(`"output":"x","action":"accept"`):                                             "output excludes",
		answer(`"action":"accept","isError":true`):                                           "action excludes",
		answer(approve + `,"reason":"x"`):                                                    "reason is that of a rejection",
		answer(reject + `,"reason":"` + strings.Repeat("x", 16<<10+1) + `"`):                 "answers[0].reason must have at most 16384 bytes",
		answer(reject + `,"input":{}`):                                                       "input is that of an approval",
		answer(approve + `,"input":[]`):                                                      "input must be an object",
		answer(`"action":"decline","content":{}`):                                            "content is that of the action accept",
		answer(`"action":"accept","content":"x"`):                                            "content must be an object",
		`{"sessionId":"s","answers":[{"decision":"approve"}]}`:                               "answers[0].id is required",
		`{"sessionId":"s","answers":[{"id":"a",` + approve + `},{"id":"a",` + reject + `}]}`: "answers[1].id occurs twice",
		`{"sessionId":"s","answers":[` + strings.TrimSuffix(strings.Repeat(`{"id":"a",`+approve+`},`, 65), ",") + `]}`: "answers must have at most 64 entries",
	} {
		require.Contains(t, w.refused(t, http.StatusBadRequest, body), want, body)
	}
}

// The calls before the first one that waits are executed, and those after it wait too.
func TestCallsAfterOneThatWaits(t *testing.T) {
	w, up := waiting(t, nil, callOf("Read", `{"file_path":"a"}`, "Bash", `{"command":"echo one >> log"}`, "Read", `{"file_path":"log"}`, "Bash", `{"command":"echo two >> log"}`), done())
	require.NoError(t, os.WriteFile(filepath.Join(w.cwd, "a"), []byte("content of a"), 0o600))
	s := w.open(t.Context(), t, `{"message":"go",`+allInputs+`}`)
	events := s.rest()
	var ended []string
	for _, ev := range events {
		if ev.name == "tool_result" {
			ended = append(ended, ev.data["result"].(map[string]any)["tool_use_id"].(string))
		}
	}
	require.Equal(t, []string{"t1"}, ended)
	result := events[len(events)-2]
	require.Equal(t, "result", result.name)
	text, err := json.Marshal(map[string]any{"sessionId": result.data["session_id"], "pending": result.data["pending"]})
	require.NoError(t, err)
	var first wire.RunResponse
	require.NoError(t, json.Unmarshal(text, &first))
	require.Len(t, first.Pending, 2)
	w.answer(t, first, approve, reject)
	require.Equal(t, "one\n", w.read(t, "log"))
	results := resultsIn(t, up.Requests()[1])
	require.Len(t, results, 4)
	require.Contains(t, results["t1"], "content of a")
	require.Contains(t, results["t3"], "one", "it ran after the call before it")
	require.Contains(t, results["t4"], "rejected")
}

// A call that cannot be shown yet, because it depends on one that waits, waits after that.
func TestACallThatDependsOnOneThatWaits(t *testing.T) {
	w, up := waiting(t, nil, callOf("Write", `{"file_path":"f","content":"a\n"}`, "Edit", `{"file_path":"f","old_string":"a","new_string":"b"}`), done())
	first := w.ask(t, "")
	require.Len(t, first.Pending, 1)
	require.Equal(t, "f (a new file)\n@@ -1,0 +1,1 @@\n+a\n", first.Pending[0].Executed)
	second := w.answer(t, first, approve)
	require.Equal(t, "input_required", second.StopReason)
	require.Len(t, second.Pending, 1)
	require.Equal(t, "f\n@@ -1,1 +1,1 @@\n-a\n+b\n", second.Pending[0].Executed)
	require.Zero(t, second.NumTurns)
	w.answer(t, second, approve)
	require.Equal(t, "b\n", w.read(t, "f"))
	require.Len(t, resultsIn(t, up.Requests()[1]), 2)
}

// The rules of the moment of the answer decide, and what is executed is what was shown.
func TestACallThatChangedIsNotExecuted(t *testing.T) {
	write := `{"file_path":"dir/f","content":"x"}`
	erase := tool.New(tool.Spec{Name: "erase"}, func(context.Context, tool.Call) (tool.Result, error) { panic("executed") })
	custom := func(c *runtime.Config) { c.Tools = []tool.Tool{erase} }
	for name, row := range map[string]struct {
		call, input string
		before      func(*runtime.Config)
		change      func(t *testing.T, w *waiter)
		restart     func(*runtime.Config)
		want        string
	}{
		"a rule denies it": {call: "Bash", input: appendOne, restart: func(c *runtime.Config) { c.Agents[0].DisallowedTools = []string{"Bash(echo *)"} }, want: "disallowedTools denies this call"},
		"the mode plan":    {call: "Bash", input: appendOne, restart: func(c *runtime.Config) { c.Agents[0].PermissionMode = "plan" }, want: "the mode plan allows only read-only tools"},
		"not of the agent": {call: "Bash", input: appendOne, restart: func(c *runtime.Config) { c.Agents[0].AllowedTools = []string{"Read"} }, want: "allowedTools does not list this tool"},
		"another form":     {call: "Bash", input: `{"command":"echo 'a'b >> log"}`, restart: func(c *runtime.Config) { c.Agents[0].DisallowedTools = []string{"Bash(git *)"} }, want: "would execute something else"},
		"no such tool":     {call: "erase", input: `{}`, before: custom, restart: func(*runtime.Config) {}, want: "there is no longer a tool erase"},
		"a link": {call: "Write", input: write, change: func(t *testing.T, w *waiter) {
			t.Helper()
			require.NoError(t, os.Mkdir(filepath.Join(w.cwd, "other"), 0o700))
			require.NoError(t, os.Symlink("other", filepath.Join(w.cwd, "dir")))
		}, want: "would execute something else"},
	} {
		t.Run(name, func(t *testing.T) {
			w, up := waiting(t, row.before, callOf(row.call, row.input), done())
			first := w.ask(t, "")
			if row.change != nil {
				row.change(t, w)
			}
			if row.restart != nil {
				w.start(t, up, row.restart)
			}
			var got wire.ErrorBody
			require.NoError(t, json.Unmarshal([]byte(w.refused(t, http.StatusConflict, answersTo(first, approve))), &got))
			require.Equal(t, "Call changed", got.Error)
			require.Equal(t, first.SessionID, got.SessionID)
			require.Contains(t, got.Reason, row.want)
			require.Equal(t, "Done.", w.answer(t, first, reject).Text, "it can be rejected")
			require.NoFileExists(t, filepath.Join(w.cwd, "log"))
			require.NoFileExists(t, filepath.Join(w.cwd, "other", "f"))
		})
	}
}

// Rules that permit a call do not change it.
func TestACallThatIsPermittedNow(t *testing.T) {
	w, up := waiting(t, nil, callOf("Bash", appendOne), done())
	first := w.ask(t, "")
	w.start(t, up, func(c *runtime.Config) { c.Agents[0].PermissionMode = "bypassPermissions" })
	w.answer(t, first, approve)
	require.Equal(t, "one\n", w.read(t, "log"))
}

func TestAFileThatChangedIsNotEdited(t *testing.T) {
	w, up := waiting(t, nil, callOf("Edit", `{"file_path":"f","old_string":"a","new_string":"b","replace_all":true}`), done())
	file := filepath.Join(w.cwd, "f")
	require.NoError(t, os.WriteFile(file, []byte("a\n"), 0o600))
	first := w.ask(t, "")
	require.Equal(t, "f\n@@ -1,1 +1,1 @@\n-a\n+b\n", first.Pending[0].Executed)
	require.NoError(t, os.WriteFile(file, []byte("a\na\n"), 0o600))
	w.answer(t, first, approve)
	require.Equal(t, "a\na\n", w.read(t, "f"))
	require.Contains(t, resultsIn(t, up.Requests()[1])["t1"], "f has changed since this call was approved, and was not changed: read it again")
}

// A changed input is judged as a new call of the same tool, and the model learns of it.
func TestAChangedInput(t *testing.T) {
	for name, row := range map[string]struct{ input, want, log string }{
		"permitted":         {`{"command":"echo two >> log"}`, `The user approved this call with another input: {\"command\":\"echo two >> log\"}`, "two\n"},
		"a rule denies it":  {`{"command":"rm log"}`, "disallowedTools denies this call", ""},
		"not of the schema": {`{"script":"echo"}`, "does not match the schema of Bash", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, up := waiting(t, func(c *runtime.Config) { c.Agents[0].DisallowedTools = []string{"Bash(rm *)"} }, callOf("Bash", appendOne), done())
			w.answer(t, w.ask(t, ""), approve+`,"input":`+row.input)
			require.Contains(t, resultsIn(t, up.Requests()[1])["t1"], row.want)
			if row.log == "" {
				require.NoFileExists(t, filepath.Join(w.cwd, "log"))
			} else {
				require.Equal(t, row.log, w.read(t, "log"))
			}
		})
	}
}

// Calls that a rule denies do not wait, and neither do calls of subagents, or calls without a
// caller who can approve.
func TestCallsThatDoNotWait(t *testing.T) {
	bash := callOf("Bash", appendOne)
	for name, row := range map[string]struct {
		change func(*agent.Agent)
		inputs string
		calls  []modeltest.Reply
		want   string
	}{
		"a rule":                {func(a *agent.Agent) { a.DisallowedTools = []string{"Bash"} }, allInputs, []modeltest.Reply{bash}, "disallowedTools denies this call"},
		"the mode plan":         {func(a *agent.Agent) { a.PermissionMode = "plan" }, allInputs, []modeltest.Reply{bash}, "the mode plan allows only read-only tools"},
		"not of the agent":      {func(a *agent.Agent) { a.AllowedTools = []string{"Read"} }, allInputs, []modeltest.Reply{bash}, "allowedTools does not list this tool"},
		"no caller who can":     {func(*agent.Agent) {}, `"inputs":["question"]`, []modeltest.Reply{bash}, "the permission mode does not allow this call"},
		"an edit that is wrong": {func(*agent.Agent) {}, allInputs, []modeltest.Reply{callOf("Edit", `{"file_path":"no","old_string":"a","new_string":"b"}`)}, "no does not exist"},
		"not of the schema":     {func(*agent.Agent) {}, allInputs, []modeltest.Reply{callOf("Bash", `{"script":"x"}`)}, "does not match the schema of Bash"},
		"a subagent": {
			func(a *agent.Agent) { a.Subagents = map[string]agent.Subagent{"sub": {Description: "d", Prompt: "p"}} }, allInputs,
			[]modeltest.Reply{callOf("Task", `{"description":"d","prompt":"p","subagent_type":"sub"}`), bash}, "the permission mode does not allow this call",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, up := waiting(t, func(c *runtime.Config) { row.change(&c.Agents[0]) }, append(row.calls, modeltest.Repeat(done()))...)
			_, res := w.blocking(t, `{"message":"go",`+row.inputs+`}`)
			require.Equal(t, "Done.", res.Text)
			require.Empty(t, res.Pending)
			require.Contains(t, resultsIn(t, up.Requests()[len(row.calls)])["t1"], row.want)
		})
	}
}

// The program that embeds the runtime is asked first, and once.
func TestApproveIsAskedFirst(t *testing.T) {
	for _, permits := range []bool{true, false} {
		asked := 0
		w, _ := waiting(t, func(c *runtime.Config) {
			c.Approve = func(context.Context, engine.ApprovalRequest) bool { asked++; return permits }
		}, callOf("Bash", appendOne), done())
		_, res := w.blocking(t, `{"message":"go",`+allInputs+`}`)
		require.Equal(t, 1, asked)
		if permits {
			require.Equal(t, "Done.", res.Text)
		} else {
			require.Len(t, res.Pending, 1)
			w.answer(t, res, approve)
			require.Equal(t, 1, asked, "a person has decided")
		}
		require.Equal(t, "one\n", w.read(t, "log"))
	}
}

// A message in place of answers rejects what waits.
func TestAMessageRejectsWhatWaits(t *testing.T) {
	w, up := waiting(t, nil, callOf("Bash", appendOne, "Read", `{"file_path":"a"}`), modeltest.Repeat(done()))
	first := w.ask(t, "")
	_, res := w.blocking(t, `{"message":"Never mind.","sessionId":"`+first.SessionID+`"}`)
	require.Equal(t, "Done.", res.Text)
	results := resultsIn(t, up.Requests()[1])
	require.Contains(t, results["t1"], "The call was rejected and did not run: the user wrote a message instead.")
	require.Contains(t, results["t2"], "The call was rejected and did not run: the user wrote a message instead.")
	require.Contains(t, string(up.Requests()[1].Body), "Never mind.")
	require.NoFileExists(t, filepath.Join(w.cwd, "log"))
	w.refused(t, http.StatusConflict, answersTo(first, approve))
}

// A message next to answers follows the results, also if the run waits again.
func TestAMessageNextToAnswers(t *testing.T) {
	w, up := waiting(t, nil, callOf("Write", `{"file_path":"f","content":"a"}`, "Edit", `{"file_path":"f","old_string":"a","new_string":"b"}`), modeltest.Repeat(done()))
	first := w.ask(t, "")
	body := strings.TrimSuffix(answersTo(first, approve), "}") + `,"message":"And hurry."}`
	_, second := w.blocking(t, body)
	require.Len(t, second.Pending, 1, second.Error)
	body = strings.TrimSuffix(answersTo(second, approve), "}") + `,"message":"Please."}`
	_, third := w.blocking(t, body)
	require.Equal(t, "Done.", third.Text, third.Error)
	require.Len(t, resultsIn(t, up.Requests()[1]), 2)
	sent := strings.Join(sentMessages(t, up.Requests()[1]), "\n")
	require.Contains(t, sent, "And hurry.")
	require.Contains(t, sent, "Please.")
}

// An approved call does not execute something else because of a call before it.
func TestACallThatAnotherOneChanged(t *testing.T) {
	w, up := waiting(t, nil, callOf("Bash", `{"command":"mkdir other; ln -s other dir"}`, "Write", `{"file_path":"dir/f","content":"x"}`), done())
	first := w.ask(t, "")
	require.Len(t, first.Pending, 2)
	_, res := w.blocking(t, answersTo(first, approve, approve))
	require.Equal(t, "Done.", res.Text, res.Error)
	require.DirExists(t, filepath.Join(w.cwd, "other"))
	require.NoFileExists(t, filepath.Join(w.cwd, "other", "f"))
	require.Contains(t, resultsIn(t, up.Requests()[1])["t2"], "it would execute something else")
}
