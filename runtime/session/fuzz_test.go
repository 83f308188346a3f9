package session_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/session"
)

// FuzzTranscript opens a transcript with arbitrary content, with or without a valid beginning. Open
// must not change the file, and Append must not change any complete line.
func FuzzTranscript(f *testing.F) {
	message := `{"role":"user","content":[{"type":"text","text":"two"}]}`
	for _, tail := range []string{
		"", "\n", "{", "{}", "null\n", message, message + "\n", message + "\n" + message[:9], message + "\r\n\x00\x00",
		`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"n","input":{"a":[1,null]}}]}` + "\n",
		`{"role":"assistant","content":null}` + "\n", `{"ROLE":"user","role":"user"}`, "\xff\xfe\n",
	} {
		f.Add([]byte(tail), false)
		f.Add([]byte(tail), true)
	}
	f.Add([]byte(`{"format":"agenthost session","version":1}`+"\n"+message), true)
	f.Add([]byte(`{"format":"agenthost session","version":9}`+"\n"), true)

	dir, cwd := f.TempDir(), f.TempDir()
	store := newFiles(f, session.FilesConfig{Dir: dir, CWD: cwd})
	f.Fuzz(func(t *testing.T, tail []byte, replace bool) {
		id := createSession(t, store, "one")
		name := transcriptPath(t, dir, id)
		defer func() { require.NoError(t, os.Remove(name)) }()
		content := tail
		if !replace {
			content = append([]byte(readFile(t, name)), tail...)
		}
		require.NoError(t, os.WriteFile(name, content, 0o600))

		s, err := store.Open(t.Context(), "a", id)
		require.Equal(t, string(content), readFile(t, name))
		if err != nil {
			require.True(t, errors.Is(err, session.ErrDamaged) || errors.Is(err, session.ErrNewer), "%v", err)
			return
		}
		if !s.Resumed() {
			require.NoError(t, s.Close())
			return
		}
		before := s.Messages()
		appendText(t, s, "last")
		require.NoError(t, s.Close())
		lines := content[:bytes.LastIndexByte(content, '\n')+1]
		require.True(t, bytes.HasPrefix([]byte(readFile(t, name)), lines))

		s = open(t, store, "a", id)
		require.Len(t, s.Messages(), len(before)+1)
		require.Equal(t, before, s.Messages()[:len(before)])
		require.Equal(t, "last", s.Messages()[len(before)].Text())
		require.NoError(t, s.Close())
	})
}
