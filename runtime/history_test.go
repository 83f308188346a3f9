package runtime_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed93082962/agenthost/runtime/tool"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
)

// sentMessages returns the messages of a request to upstream as "role: text" lines.
func sentMessages(t *testing.T, req *modeltest.Request) []string {
	t.Helper()
	var body struct {
		Messages []struct {
			Role    string
			Content []struct{ Text string }
		}
	}
	require.NoError(t, json.Unmarshal(req.Body, &body))
	var lines []string
	for _, m := range body.Messages {
		for _, block := range m.Content {
			lines = append(lines, m.Role+": "+block.Text)
		}
	}
	return lines
}

const history = `[{"role":"user","content":"I am Ada."},{"role":"assistant","content":"Hello, Ada."}]`

func TestHistorySeedsANewSession(t *testing.T) {
	for name, sessionID := range map[string]string{"no session": "", "an unknown session": `"sessionId":"never-seen",`} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Ada."))))
			dir := t.TempDir()
			b := serve(t, up, func(c *runtime.Config) {
				files, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: c.CWD})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, files.Close()) })
				c.Sessions = files
			})
			_, first := b.blocking(t, `{`+sessionID+`"message":"Who am I?","history":`+history+`}`)
			require.Equal(t, "completed", string(first.State), first.Error)
			want := []string{"user: I am Ada.", "assistant: Hello, Ada.", "user: Who am I?"}
			require.Equal(t, want, sentMessages(t, up.Requests()[0]))

			_, second := b.blocking(t, `{"sessionId":"`+first.SessionID+`","message":"Again?","history":`+
				`[{"role":"user","content":"I am Bob."},{"role":"assistant","content":"Hello, Bob."}]}`)
			require.Equal(t, first.SessionID, second.SessionID)
			require.Equal(t, append(want, "assistant: Ada.", "user: Again?"), sentMessages(t, up.Requests()[1]),
				"the history is stored once, and that of a resumed session is ignored")
		})
	}
}

// A run that requires an unknown session starts nothing: the model is not called, no session is
// stored, and the ids of the run and of the session are still unused.
func TestARequiredSession(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Ada."))))
	dir := t.TempDir()
	b := serve(t, up, func(c *runtime.Config) {
		files, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: c.CWD})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, files.Close()) })
		c.Sessions = files
		other := helper(up)
		other.ID = "other"
		c.Agents = append(c.Agents, other)
	})
	const id = "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3"
	for range 2 {
		res := b.do(t, "POST", runs, `{"message":"hello","sessionId":"never-seen","requireSession":true,"runId":"`+id+`","history":`+history+`}`)
		require.Equal(t, http.StatusConflict, res.status)
		require.JSONEq(t, `{"error":"Unknown session","sessionId":"never-seen"}`, res.body)
	}
	require.Empty(t, up.Requests())
	var stored []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && strings.HasSuffix(path, ".jsonl") {
			stored = append(stored, path)
		}
		return err
	}))
	require.Empty(t, stored)

	_, first := b.blocking(t, `{"message":"Who am I?","sessionId":"never-seen","requireSession":false,"runId":"`+id+`","history":`+history+`}`)
	require.Equal(t, "completed", string(first.State), first.Error)
	_, second := b.blocking(t, `{"message":"Again?","sessionId":"`+first.SessionID+`","requireSession":true}`)
	require.Equal(t, first.SessionID, second.SessionID)
	require.Len(t, sentMessages(t, up.Requests()[1]), 5)
	elsewhere := b.do(t, "POST", "/v1/agents/other/runs", `{"message":"hello","sessionId":"`+first.SessionID+`","requireSession":true}`)
	require.Equal(t, http.StatusConflict, elsewhere.status, "a session belongs to one agent")
	require.Equal(t, http.StatusNoContent, b.do(t, "DELETE", "/v1/sessions/"+first.SessionID, "").status)
	deleted := b.do(t, "POST", runs, `{"message":"hello","sessionId":"`+first.SessionID+`","requireSession":true}`)
	require.JSONEq(t, `{"error":"Unknown session","sessionId":"`+first.SessionID+`"}`, deleted.body)
}

// The images of a result are part of the session: a runtime that resumes it sends them again,
// unless the model of the agent accepts none.
func TestImagesOfAResumedSession(t *testing.T) {
	var picture bytes.Buffer
	require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 2, 2))))
	look := tool.New(tool.Spec{Name: "look", ReadOnly: true}, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Output: "[image]", Images: []tool.Image{{MediaType: "image/png", Data: picture.Bytes()}}}, nil
	})
	cwd, dir, id := t.TempDir(), t.TempDir(), ""
	for i, row := range []struct {
		protocol modeltest.Protocol
		images   int
	}{{modeltest.Anthropic, 1}, {modeltest.Anthropic, 1}, {modeltest.OpenAI, 0}} {
		replies := []modeltest.Reply{modeltest.Stream(modeltest.Text("Seen."))}
		if i == 0 {
			replies = append([]modeltest.Reply{modeltest.Stream(modeltest.ToolCall("t1", "look", `{}`))}, replies...)
		}
		up := modeltest.Start(t, row.protocol, replies...)
		files, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: cwd})
		require.NoError(t, err)
		b := serve(t, up, func(c *runtime.Config) {
			c.CWD, c.Sessions, c.Tools = cwd, files, []tool.Tool{look}
			c.Agents[0].Provider.Protocol = string(row.protocol)
		})
		_, got := b.blocking(t, `{"message":"Look.","sessionId":"`+cmp.Or(id, "new")+`"}`)
		require.Equal(t, "completed", string(got.State), got.Error)
		require.True(t, id == "" || id == got.SessionID)
		id = got.SessionID
		sent := string(up.Requests()[len(up.Requests())-1].Body)
		require.Equal(t, row.images, strings.Count(sent, `"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+
			base64.StdEncoding.EncodeToString(picture.Bytes())+`"`))
		require.Contains(t, sent, "[image]")
		require.NoError(t, b.Close())
		require.NoError(t, files.Close())
	}
}

func TestHistoryIsValidated(t *testing.T) {
	b := serve(t, nil, nil)
	turns := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"role":%q,"content":"x"}`, []string{"user", "assistant"}[i%2])
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	for name, row := range map[string]struct {
		history string
		want    string // "" for valid
	}{
		"absent":                    {`null`, ""},
		"empty":                     {`[]`, ""},
		"1,000 entries":             {turns(1000), ""},
		"unknown fields":            {`[{"role":"user","content":"a","id":1},{"role":"assistant","content":"b"}]`, ""},
		"1,001 entries":             {turns(1001), "history must have at most 1000 entries"},
		"starts with the assistant": {`[{"role":"assistant","content":"a"}]`, `history[0].role must be "user"`},
		"two of one role":           {`[{"role":"user","content":"a"},{"role":"user","content":"b"}]`, `history[1].role must be "assistant"`},
		"another role":              {`[{"role":"system","content":"a"}]`, `history[0].role must be "user"`},
		"ends with the user":        {turns(3), "history must end with an entry of the assistant"},
		"empty content":             {`[{"role":"user","content":" "},{"role":"assistant","content":"b"}]`, "history[0].content is required"},
		"no array":                  {`"x"`, "history must be an array, not string"},
		"content of another type":   {`[{"role":"user","content":[]}]`, "history[0].content must be a string, not array"},
	} {
		t.Run(name, func(t *testing.T) {
			res := b.do(t, "POST", runs, `{"message":"hello","history":`+row.history+`}`, "Accept", "application/json")
			if row.want == "" {
				require.Equal(t, 200, res.status, res.body)
				return
			}
			require.Equal(t, 400, res.status)
			body, err := json.Marshal(map[string]string{"error": "Invalid request: " + row.want})
			require.NoError(t, err)
			require.JSONEq(t, string(body), res.body)
		})
	}
}
