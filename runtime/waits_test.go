package runtime_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const allInputs = `"inputs":["approval","client_tool","question"]`

// waiter is a runtime whose runs may wait, with its directories, which outlive it.
type waiter struct {
	*bench

	cwd, state string
}

// start starts the runtime, or another one with the same directories.
func (w *waiter) start(t *testing.T, up *modeltest.Upstream, change func(*runtime.Config)) {
	t.Helper()
	if w.cwd == "" {
		w.cwd, w.state = t.TempDir(), t.TempDir()
	}
	w.bench = serve(t, up, func(c *runtime.Config) {
		c.CWD = w.cwd
		files, err := session.NewFiles(session.FilesConfig{Dir: w.state, CWD: w.cwd})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, files.Close()) })
		c.Sessions = files
		if change != nil {
			change(c)
		}
	})
}

func waiting(t *testing.T, change func(*runtime.Config), replies ...modeltest.Reply) (*waiter, *modeltest.Upstream) {
	t.Helper()
	up := modeltest.Start(t, modeltest.Anthropic, replies...)
	w := new(waiter)
	w.start(t, up, change)
	return w, up
}

func callOf(tools ...string) modeltest.Reply {
	var parts []modeltest.Step
	for i := 0; i < len(tools); i += 2 {
		parts = append(parts, modeltest.ToolCall(fmt.Sprintf("t%d", i/2+1), tools[i], tools[i+1]))
	}
	return modeltest.Stream(parts...)
}

// ask starts a run that waits.
func (w *waiter) ask(t *testing.T, more string) wire.RunResponse {
	t.Helper()
	_, res := w.blocking(t, `{"message":"go",`+allInputs+more+`}`)
	require.Equal(t, "input_required", res.StopReason, res.Error)
	require.EqualValues(t, "completed", res.State)
	require.NotEmpty(t, res.Pending)
	return res
}

// body returns a request with answers: each has the fields of an answer without its id.
func answersTo(res wire.RunResponse, answers ...string) string {
	var all []string
	for i, answer := range answers {
		all = append(all, `{"id":"`+res.Pending[i].ID+`",`+answer+`}`)
	}
	return `{"sessionId":"` + res.SessionID + `",` + allInputs + `,"answers":[` + strings.Join(all, ",") + `]}`
}

// answer runs the answers, all of which it expects to count.
func (w *waiter) answer(t *testing.T, res wire.RunResponse, answers ...string) wire.RunResponse {
	t.Helper()
	status, next := w.blocking(t, answersTo(res, answers...))
	require.Equal(t, http.StatusOK, status.status, status.body)
	require.Equal(t, res.SessionID, next.SessionID)
	return next
}

func (w *waiter) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.cwd, name))
	require.NoError(t, err)
	return string(data)
}

// resultsIn returns the results of calls in the last message of a request to upstream.
func resultsIn(t *testing.T, req *modeltest.Request) map[string]string {
	t.Helper()
	var body struct {
		Messages []struct {
			Content []struct {
				Type      string
				ToolUseID string `json:"tool_use_id"`
				Content   json.RawMessage
			}
		}
	}
	require.NoError(t, json.Unmarshal(req.Body, &body))
	results := map[string]string{}
	for _, b := range body.Messages[len(body.Messages)-1].Content {
		if b.Type == "tool_result" {
			results[b.ToolUseID] = string(b.Content)
		}
	}
	return results
}

const approve, reject = `"decision":"approve"`, `"decision":"reject"`

// A call that nobody approved in advance waits, and is executed as it was shown.
func TestAnApprovedCallIsExecuted(t *testing.T) {
	w, up := waiting(t, nil, callOf("Bash", `{"command":"echo one >> log; cat log"}`), done())
	first := w.ask(t, "")
	require.Len(t, first.Pending, 1)
	p := first.Pending[0]
	require.NotEmpty(t, p.ID)
	require.Equal(t, wire.Pending{
		ID: p.ID, Kind: "approval", ToolName: "Bash", ToolUseID: "t1", Input: json.RawMessage(`{"command":"echo one >> log; cat log"}`),
		Executed: "echo one >> log; cat log", Reason: p.Reason,
	}, p)
	require.Contains(t, p.Reason, "permission mode")
	require.NoFileExists(t, filepath.Join(w.cwd, "log"))

	second := w.answer(t, first, approve)
	require.Equal(t, "Done.", second.Text)
	require.Equal(t, "end_turn", second.StopReason)
	require.Empty(t, second.Pending)
	require.NotEqual(t, first.RunID, second.RunID)
	require.Equal(t, "one\n", w.read(t, "log"))
	require.Contains(t, resultsIn(t, up.Requests()[1])["t1"], "one")
}

// done is the last response of most tests.
func done() modeltest.Reply { return modeltest.Stream(modeltest.Text("Done.")) }
