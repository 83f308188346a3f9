package runtime_test

import (
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
)

// storedSessions returns the files of sessions below a directory.
func storedSessions(t *testing.T, dir string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".jsonl") {
			files = append(files, path)
		}
		return err
	}))
	return files
}

func TestStoreOfARunRequest(t *testing.T) {
	for name, row := range map[string]struct {
		onRequest bool
		body      string // without the message
		stored    bool
	}{
		"the default":                       {false, ``, true},
		"null":                              {false, `,"store":null`, true},
		"true":                              {false, `,"store":true`, true},
		"false":                             {false, `,"store":false`, false},
		"false, with a history":             {false, `,"store":false,"history":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]`, false},
		"on request":                        {true, ``, false},
		"on request, null":                  {true, `,"store":null`, false},
		"on request, true":                  {true, `,"store":true`, true},
		"on request, false":                 {true, `,"store":false`, false},
		"on request, with a session":        {true, `,"sessionId":"unknown"`, true},
		"on request, with true and session": {true, `,"sessionId":"unknown","store":true`, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, cwd := t.TempDir(), t.TempDir()
			files, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: cwd})
			require.NoError(t, err)
			defer files.Close()
			up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Hi."))))
			b := serve(t, up, func(c *runtime.Config) { c.CWD, c.Sessions, c.StoreOnRequest = cwd, files, row.onRequest })
			_, run := b.blocking(t, `{"message":"hello"`+row.body+`}`)
			require.EqualValues(t, "completed", run.State, run.Error)
			require.True(t, ids.ValidSession(run.SessionID))
			require.Equal(t, row.stored, len(storedSessions(t, dir)) == 1)
			again := b.do(t, "POST", runs, `{"message":"hello","requireSession":true,"sessionId":"`+run.SessionID+`"}`)
			require.Equal(t, row.stored, again.status == http.StatusOK, again.body)
		})
	}
}

func TestStoreOfARunRequestIsValidated(t *testing.T) {
	b := serve(t, nil, nil)
	for body, want := range map[string]string{
		`{"message":"hello","store":"no"}`:                  "store must be true or false, not string",
		`{"message":"hello","store":false,"sessionId":"a"}`: "a run with a sessionId is stored: store must not be false",
	} {
		res := b.do(t, "POST", runs, body)
		require.Equal(t, http.StatusBadRequest, res.status, body)
		require.Contains(t, res.body, want)
	}
}
