package runtime_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// failing is a store whose disk fails while one of its flags is set.
type failing struct {
	session.Store
	settle, text atomic.Bool // for the end of a wait, for messages with a text
}

type failingSession struct {
	session.Session
	store *failing
}

var errFailing = errors.New("the disk has failed")

func (b *failing) Open(ctx context.Context, agentID, id string) (session.Session, error) {
	s, err := b.Store.Open(ctx, agentID, id)
	return failingSession{s, b}, err
}

func (s failingSession) SetWaiting(ctx context.Context, waiting json.RawMessage, events ...json.RawMessage) error {
	if waiting == nil && s.store.settle.Load() {
		return errFailing
	}
	return s.Session.SetWaiting(ctx, waiting, events...)
}

func (s failingSession) Append(ctx context.Context, m model.Message) error {
	if m.Text() != "" && s.store.text.Load() {
		return errFailing
	}
	return s.Session.Append(ctx, m)
}

// with makes the store of a runtime one that can fail.
func (b *failing) with(c *runtime.Config) { b.Store, c.Sessions = c.Sessions, b }

// events returns the events of the transcript with a subtype.
func (w *waiter) events(t *testing.T, id, subtype string) (found []map[string]any) {
	t.Helper()
	var page wire.Transcript
	require.NoError(t, json.Unmarshal([]byte(w.do(t, "GET", "/v1/sessions/"+id+"?limit=1000", "").body), &page))
	for _, e := range page.Entries {
		var event map[string]any
		if e.Event != nil {
			require.NoError(t, json.Unmarshal(e.Event, &event))
		}
		if event["subtype"] == subtype {
			found = append(found, event)
		}
	}
	return found
}

// An answer is neither sent nor recorded before the session no longer waits. Then it counts, once.
func TestAnswersThatCannotBeStored(t *testing.T) {
	for _, body := range []string{"answers", "message"} {
		t.Run(body, func(t *testing.T) {
			disk := new(failing)
			w, _ := waiting(t, disk.with, callOf("Bash", appendOne), modeltest.Repeat(done()))
			first := w.ask(t, "")
			request := answersTo(first, approve)
			if body == "message" {
				request = `{"message":"No.","sessionId":"` + first.SessionID + `"}`
			}
			disk.settle.Store(true)
			for _, ev := range w.open(t.Context(), t, request).rest() {
				require.NotEqual(t, "answered", ev.data["subtype"])
			}
			require.Empty(t, w.events(t, first.SessionID, "answered"))
			require.NoFileExists(t, filepath.Join(w.cwd, "log"))
			disk.settle.Store(false)
			_, res := w.blocking(t, request)
			require.Equal(t, "Done.", res.Text, res.Error)
			require.Len(t, w.events(t, first.SessionID, "answered"), 1)
		})
	}
}

// A message next to answers that is not stored is an error of the run, also if it waits again.
func TestAMessageNextToAnswersThatCannotBeStored(t *testing.T) {
	disk := new(failing)
	w, _ := waiting(t, disk.with, callOf("Write", `{"file_path":"f","content":"a"}`, "Edit", `{"file_path":"f","old_string":"a","new_string":"b"}`), done())
	first := w.ask(t, "")
	disk.text.Store(true)
	_, second := w.blocking(t, strings.TrimSuffix(answersTo(first, approve), "}")+`,"message":"And hurry."}`)
	require.Equal(t, "Internal error", second.Error)
}

// A client that has lost the result of the run asks what waits, which changes nothing.
func TestWhatWaitsIsAskedFor(t *testing.T) {
	w, _ := waiting(t, nil, callOf("Bash", appendOne), modeltest.Repeat(done()))
	first := w.ask(t, "")
	query := `{"sessionId":"` + first.SessionID + `","answers":[]}`
	for range 2 {
		var got wire.ErrorBody
		require.NoError(t, json.Unmarshal([]byte(w.refused(t, http.StatusBadRequest, query)), &got))
		require.Equal(t, first.Pending, got.Pending)
	}
	for ev, err := range w.Run(t.Context(), "helper", wire.RunRequest{SessionID: &first.SessionID, Answers: []wire.Answer{}}) {
		require.Nil(t, ev.Payload)
		var rejected *runtime.Error
		require.ErrorAs(t, err, &rejected)
		require.Equal(t, first.Pending, rejected.Body.Pending)
	}
	w.answer(t, first, approve)
	require.Contains(t, w.refused(t, http.StatusConflict, query), "Not waiting")
	require.Contains(t, w.refused(t, http.StatusConflict, `{"sessionId":"unknown","answers":[]}`), "Unknown session")
	require.Contains(t, w.refused(t, http.StatusBadRequest, `{"answers":[]}`), "answers need a sessionId")
	require.Contains(t, w.refused(t, http.StatusBadRequest, `{"sessionId":"a","answers":null}`), "message is required")
	_, res := w.blocking(t, `{"message":"go","sessionId":"`+first.SessionID+`","answers":[]}`)
	require.Equal(t, "Done.", res.Text, "next to a message an empty list says nothing")
}

// The transcript has the sum of the turns of the runs that answers have continued.
func TestTurnsOfRunsThatAnswersContinue(t *testing.T) {
	bash := callOf("Bash", appendOne)
	w, _ := waiting(t, nil, callOf("Glob", `{"pattern":"*"}`), bash, bash, done(), bash, modeltest.Repeat(done()))
	first := w.ask(t, "")
	second := w.answer(t, first, approve)
	third := w.answer(t, second, approve)
	require.Equal(t, []int{2, 1, 1}, []int{first.NumTurns, second.NumTurns, third.NumTurns})
	events := w.events(t, first.SessionID, "input_required")
	require.Len(t, events, 2)
	require.NotContains(t, events[0], "total_turns")
	require.EqualValues(t, 3, events[1]["total_turns"])
	events = w.events(t, first.SessionID, "success")
	require.Len(t, events, 1)
	require.EqualValues(t, 4, events[0]["total_turns"])
	_, next := w.blocking(t, `{"message":"go","sessionId":"`+first.SessionID+`",`+allInputs+`}`)
	w.blocking(t, `{"message":"No.","sessionId":"`+next.SessionID+`"}`)
	events = w.events(t, first.SessionID, "success")
	require.NotContains(t, events[1], "total_turns", "a message continues no run")
}

// The digest of an answer with another input is that of what runs, and nothing else runs.
func TestDigestOfAChangedInput(t *testing.T) {
	for name, row := range map[string]struct {
		call, input, answer string
		rules               []string
		executed            string // "" if nothing runs
		log                 string
		want                string
	}{
		"a command":      {"Bash", appendOne, `{"command":"echo two >> log"}`, nil, "echo two >> log", "two\n", "two"},
		"another type":   {"Bash", appendOne, `{"command":"echo two >> log","timeout":"5000"}`, nil, "echo two >> log", "two\n", "two"},
		"a rule":         {"Bash", appendOne, `{"command":"rm log"}`, []string{"Bash(rm *)"}, "", "old\n", "disallowedTools denies this call"},
		"a file":         {"Write", `{"file_path":"log","content":"a\n"}`, `{"file_path":"log","content":"b\n"}`, nil, "log\n@@ -1,1 +1,1 @@\n-old\n+b\n", "b\n", "log"},
		"without a text": {"Edit", `{"file_path":"log","old_string":"old","new_string":"new"}`, `{"file_path":"log","old_string":"no","new_string":"new"}`, nil, "", "old\n", "old_string is not in log"},
	} {
		t.Run(name, func(t *testing.T) {
			w, up := waiting(t, func(c *runtime.Config) { c.Agents[0].DisallowedTools = row.rules }, callOf(row.call, row.input), done())
			if row.call != "Bash" || row.executed == "" {
				require.NoError(t, os.WriteFile(filepath.Join(w.cwd, "log"), []byte("old\n"), 0o600))
			}
			first := w.ask(t, "")
			w.answer(t, first, approve+`,"input":`+row.answer)
			require.Equal(t, row.log, w.read(t, "log"))
			require.Contains(t, resultsIn(t, up.Requests()[1])["t1"], row.want)
			answered := w.events(t, first.SessionID, "answered")
			require.Len(t, answered, 1)
			if row.executed == "" {
				require.NotContains(t, answered[0], "digest")
				return
			}
			digest := sha256.Sum256([]byte(row.executed))
			require.Equal(t, hex.EncodeToString(digest[:]), answered[0]["digest"])
		})
	}
}

// A changed input whose file changes before it runs is not executed.
func TestAChangedInputWhoseFileChanges(t *testing.T) {
	w, up := waiting(t, nil, callOf("Bash", `{"command":"echo new > f"}`, "Write", `{"file_path":"f","content":"a\n"}`), done())
	require.NoError(t, os.WriteFile(filepath.Join(w.cwd, "f"), []byte("old\n"), 0o600))
	w.answer(t, w.ask(t, ""), approve, approve+`,"input":{"file_path":"f","content":"b\n"}`)
	require.Equal(t, "new\n", w.read(t, "f"))
	require.Contains(t, resultsIn(t, up.Requests()[1])["t2"], "f has changed since this call was approved")
}

// Of many questions, as many wait as a person can be shown at once. The calls of the others end,
// and no call runs twice without its answer.
func TestManyQuestionsAtOnce(t *testing.T) {
	var mu sync.Mutex
	begun := map[string]int{}
	ask := tool.New(tool.Spec{Name: "ask", ReadOnly: true}, func(_ context.Context, call tool.Call) (tool.Result, error) {
		if call.Question != nil {
			return tool.Result{Output: "answered"}, nil
		}
		mu.Lock()
		defer mu.Unlock()
		begun[call.ID]++
		return tool.Result{Question: &tool.Question{Message: "?"}}, nil
	})
	var calls []string
	for range 70 {
		calls = append(calls, "ask", `{}`)
	}
	w, up := waiting(t, func(c *runtime.Config) { c.Tools = []tool.Tool{ask} }, callOf(calls...), done())
	first := w.ask(t, "")
	require.Len(t, first.Pending, 64)
	answers := make([]string, 64)
	for i := range answers {
		answers[i] = `"action":"accept"`
	}
	require.Equal(t, "Done.", w.answer(t, first, answers...).Text)
	ended := map[string]int{}
	for id, result := range resultsIn(t, up.Requests()[1]) {
		require.Equal(t, 1, begun[id], id)
		ended[result]++
	}
	require.Equal(t, map[string]int{`"answered"`: 64, `"The call needs an answer to a question: it came with too many others."`: 6}, ended)
}

// The mode dontAsk denies no call by a rule: the program that embeds the runtime may approve it,
// and so may the caller.
func TestTheModeDontAsk(t *testing.T) {
	for _, permits := range []bool{true, false} {
		t.Run(fmt.Sprint(permits), func(t *testing.T) {
			asked := 0
			w, _ := waiting(t, func(c *runtime.Config) {
				c.Agents[0].PermissionMode = "dontAsk"
				c.Approve = func(context.Context, runtime.ApprovalRequest) bool { asked++; return permits }
			}, callOf("Bash", appendOne), done())
			_, res := w.blocking(t, `{"message":"go",`+allInputs+`}`)
			require.Equal(t, 1, asked)
			if !permits {
				require.Len(t, res.Pending, 1)
				res = w.answer(t, res, approve)
			}
			require.Equal(t, "Done.", res.Text)
			require.Equal(t, "one\n", w.read(t, "log"))
		})
	}
}

// A call that cannot be compared with its schema in time is not one that does not match it. The
// comparison ends after the call, soon enough for the test.
func TestAWaitWhoseSchemaIsSlow(t *testing.T) {
	list := func(n int, item string) string { return strings.TrimSuffix(strings.Repeat(item+",", n), ",") }
	slow := `{"type":"object","properties":{"a":{"items":{"allOf":[` + list(400, `{"type":"integer"}`) + `]}}}}`
	w, up := waiting(t, func(c *runtime.Config) {
		c.Limits.ToolTimeout = 10 * time.Millisecond
		c.Tools = []tool.Tool{tool.New(tool.Spec{Name: "slow", InputSchema: json.RawMessage(slow)},
			func(context.Context, tool.Call) (tool.Result, error) { panic("executed") })}
	}, callOf("slow", `{"a":[`+list(500, "1")+`]}`), done())
	_, res := w.blocking(t, `{"message":"go",`+allInputs+`}`)
	require.Equal(t, "Done.", res.Text, res.Error)
	require.NotContains(t, resultsIn(t, up.Requests()[1])["t1"], "does not match the schema")
}

// The content of an accepted question matches its schema. Without content it is an empty object.
func TestContentOfAnAcceptedQuestion(t *testing.T) {
	ask := tool.New(tool.Spec{Name: "ask"}, func(_ context.Context, call tool.Call) (tool.Result, error) {
		if call.Question != nil {
			return tool.Result{Output: "answered " + string(call.Question.Content)}, nil
		}
		return tool.Result{Question: &tool.Question{Message: "?", Schema: call.Input}}, nil
	})
	for name, row := range map[string]struct {
		schema, answer string
		want           string // the result, or "" for 400
	}{
		"a value":               {`{"type":"object","required":["a"]}`, `"action":"accept","content":{"a":1}`, `answered {\"a\":1}`},
		"without the value":     {`{"type":"object","required":["a"]}`, `"action":"accept","content":{}`, ""},
		"without content":       {`{"type":"object","required":["a"]}`, `"action":"accept"`, ""},
		"nothing is required":   {`{"type":"object"}`, `"action":"accept"`, "answered "},
		"declined, so no value": {`{"type":"object","required":["a"]}`, `"action":"decline"`, "answered "},
	} {
		t.Run(name, func(t *testing.T) {
			w, up := waiting(t, func(c *runtime.Config) {
				c.Tools = []tool.Tool{ask}
				c.Agents[0].PermissionMode = "bypassPermissions"
			}, callOf("ask", row.schema), done())
			first := w.ask(t, "")
			if row.want == "" {
				require.Contains(t, w.refused(t, http.StatusBadRequest, answersTo(first, row.answer)), "does not match the schema")
				return
			}
			w.answer(t, first, row.answer)
			require.Contains(t, resultsIn(t, up.Requests()[1])["t1"], row.want)
		})
	}
}

// A tool of the client whose schema no model accepts is left out, with a warning, and the others
// are not.
func TestAClientToolThatIsLeftOut(t *testing.T) {
	w, up := waiting(t, nil, done())
	text := ""
	for _, ev := range w.open(t.Context(), t, `{"message":"go",`+allInputs+`,"clientTools":[{"name":"bad","inputSchema":{"$ref":"#"}},{"name":"good"}]}`).rest() {
		text += fmt.Sprint(ev.data)
	}
	require.Contains(t, text, `The tool "bad" is left out because of its input schema`)
	require.Contains(t, string(up.Requests()[0].Body), `"name":"good"`)
	require.NotContains(t, string(up.Requests()[0].Body), `"name":"bad"`)
}

// A message goes on in a session whose wait cannot be read, as after a change by hand. Its calls
// have an unknown outcome.
func TestAWaitThatCannotBeRead(t *testing.T) {
	w, up := waiting(t, nil, callOf("Bash", appendOne), done())
	first := w.ask(t, "")
	files, err := session.NewFiles(session.FilesConfig{Dir: w.state, CWD: w.cwd})
	require.NoError(t, err)
	defer files.Close()
	s, err := files.Open(t.Context(), "helper", first.SessionID)
	require.NoError(t, err)
	require.NoError(t, s.SetWaiting(t.Context(), json.RawMessage(`{"calls":[{"toolUseId":"another"}]}`)))
	require.NoError(t, s.Close())
	require.Equal(t, http.StatusInternalServerError, w.do(t, "POST", runs, answersTo(first, approve)).status)
	_, res := w.blocking(t, `{"message":"go","sessionId":"`+first.SessionID+`"}`)
	require.Equal(t, "Done.", res.Text)
	require.Contains(t, w.log.String(), "drop what the session waits for")
	require.Contains(t, resultsIn(t, up.Requests()[1])["t1"], "its outcome is unknown")
	require.Contains(t, w.refused(t, http.StatusConflict, answersTo(first, approve)), "Not waiting")
}

// previewPanics is a tool that fails when it states what a call executes.
type previewPanics struct{ tool.Tool }

func (previewPanics) Preview(context.Context, json.RawMessage) (string, error) { panic("no preview") }

// A call that cannot be checked is not run, and does not end the run.
func TestAPreviewThatPanics(t *testing.T) {
	w, up := waiting(t, func(c *runtime.Config) {
		c.Tools = []tool.Tool{previewPanics{tool.New(tool.Spec{Name: "odd"}, func(context.Context, tool.Call) (tool.Result, error) { panic("executed") })}}
	}, callOf("odd", `{}`), done())
	_, res := w.blocking(t, `{"message":"go",`+allInputs+`}`)
	require.Equal(t, "Done.", res.Text)
	require.Contains(t, resultsIn(t, up.Requests()[1])["t1"], "could not be checked because of an internal error")
	require.Contains(t, w.log.String(), "no preview")
}

// A call that is denied because it cannot be shown was denied by no setting.
func TestSourceOfACallThatCannotBeShown(t *testing.T) {
	w, _ := waiting(t, nil, callOf("Edit", `{"file_path":"latin","old_string":"a","new_string":"b"}`), done())
	require.NoError(t, os.WriteFile(filepath.Join(w.cwd, "latin"), []byte("\xe9a\n"), 0o600))
	_, res := w.blocking(t, `{"message":"go",`+allInputs+`}`)
	denied := w.events(t, res.SessionID, "permission_denied")
	require.Len(t, denied, 1)
	require.NotContains(t, denied[0], "source")
	require.NotContains(t, denied[0], "rule")
}

// Rules judge a generated form of a command. That is shown, and what is approved.
func TestTheGeneratedFormIsApproved(t *testing.T) {
	w, _ := waiting(t, func(c *runtime.Config) { c.Agents[0].DisallowedTools = []string{"Bash(git *)"} }, callOf("Bash", `{"command":"echo 'a'b >> log"}`), done())
	first := w.ask(t, "")
	require.NotEqual(t, "echo 'a'b >> log", first.Pending[0].Executed)
	w.answer(t, first, approve)
	require.Equal(t, "ab\n", w.read(t, "log"))
}
