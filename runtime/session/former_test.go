package session_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
)

// former returns a transcript in the format of the former version.
func former(text string) string {
	text = regexp.MustCompile(`,"time":"[^"]*"}`).ReplaceAllString(text, "}")
	return strings.Replace(text, `"version":2,`, `"version":1,`, 1)
}

// A session of a former version, which had no shards and no events, is moved when it is continued.
func TestFilesReadSessionsOfAFormerVersion(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd})
	create := func(texts ...string) (id, flat, sharded string) {
		id = createSession(t, store, texts...)
		sharded = transcriptPath(t, dir, id)
		flat = filepath.Join(filepath.Dir(filepath.Dir(sharded)), id+".jsonl")
		writeFile(t, flat, former(readFile(t, sharded)))
		require.NoError(t, os.Remove(sharded))
		return id, flat, sharded
	}
	for name, change := range map[string]func(t *testing.T, s session.Session) (want []string){
		"append": func(t *testing.T, s session.Session) []string {
			t.Helper()
			appendText(t, s, "three")
			return []string{"one", "two", "three"}
		},
		"record": func(t *testing.T, s session.Session) []string {
			t.Helper()
			require.NoError(t, s.Record([]byte(`{}`)))
			return []string{"one", "two"}
		},
		"compact": func(t *testing.T, s session.Session) []string {
			t.Helper()
			compact(t, s, "summary")
			return []string{"summary"}
		},
	} {
		for tail, stored := range map[string]bool{"": false, "{": false, `{"role":"user","content":[{"type":"text","text":"two"}]}`: true} {
			t.Run(name+" "+tail, func(t *testing.T) {
				texted := []string{"one", "two"}
				if stored {
					texted = texted[:1]
				}
				id, flat, sharded := create(texted...)
				writeFile(t, flat, readFile(t, flat)+tail)
				before := readFile(t, flat)
				s := open(t, store, "a", id)
				require.True(t, s.Resumed())
				require.Equal(t, []string{"one", "two"}, texts(s))
				_, err := newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd}).Open(t.Context(), "a", id)
				require.ErrorIs(t, err, session.ErrBusy)
				require.NoError(t, s.Close())
				require.Equal(t, before, readFile(t, flat), "a session that is only opened is not moved")

				s = open(t, store, "a", id)
				want := change(t, s)
				_, err = newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd}).Open(t.Context(), "a", id)
				require.ErrorIs(t, err, session.ErrBusy)
				require.NoError(t, s.Close())
				require.NoFileExists(t, flat)
				require.FileExists(t, sharded)
				s = open(t, store, "a", id)
				require.Equal(t, want, texts(s))
				require.NoError(t, s.Close())
				all, err := store.Transcript(t.Context(), id, 0, 10)
				require.NoError(t, err)
				require.Equal(t, "one", all.Entries[0].Message.Text())
				require.Zero(t, all.Entries[0].Time, "a former version stored no time")
				require.NotZero(t, all.Entries[2].Time)
				require.Len(t, all.Entries, 3)
			})
		}
	}
	deleted, flat, _ := create("one")
	require.NoError(t, store.Delete(t.Context(), deleted))
	require.NoFileExists(t, flat)
	expired, flat, _ := create("one")
	setAge(t, flat, 720*time.Hour)
	require.False(t, open(t, store, "a", expired).Resumed())
	require.NoFileExists(t, flat)
}

// The folder to which a session is moved may not exist, or the move may fail. The file is replaced
// once.
func TestFilesMoveSessionsOfAFormerVersion(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	id := createSession(t, store, "one")
	sharded := transcriptPath(t, dir, id)
	shard := filepath.Dir(sharded)
	text := former(readFile(t, sharded))
	require.NoError(t, os.RemoveAll(shard))
	flat := filepath.Join(filepath.Dir(shard), id+".jsonl")
	writeFile(t, flat, text)
	const unsharded = "of-a-former-version" // its id has no time
	other := filepath.Join(filepath.Dir(shard), unsharded+".jsonl")
	writeFile(t, other, strings.ReplaceAll(text, id, unsharded))

	s := open(t, store, "a", id)
	writeFile(t, shard, "a file has the name of the folder")
	require.ErrorContains(t, s.Append(t.Context(), model.UserText("two")), "convert transcript: ")
	require.Equal(t, text, readFile(t, flat))
	require.NoError(t, os.Remove(shard))
	for range 2 {
		appendText(t, s, "two")
	}
	require.NoError(t, s.Close())
	require.NoFileExists(t, flat)
	require.Equal(t, 4, strings.Count(readFile(t, sharded), "\n"))

	s = open(t, store, "a", unsharded)
	appendText(t, s, "two")
	before, err := os.Stat(other)
	require.NoError(t, err)
	appendText(t, s, "three")
	after, err := os.Stat(other)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.NoError(t, s.Close())
	require.Equal(t, []string{"one", "two", "three"}, texts(open(t, store, "a", unsharded)))
}
