package session_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/session"
)

// A transcript that cannot be read is an error, and is not unknown.
func TestTranscriptErrors(t *testing.T) {
	for name, row := range map[string]struct {
		change func(t *testing.T, file string)
		want   error
		text   string
	}{
		"another file": {func(t *testing.T, file string) { t.Helper(); writeFile(t, file, "# Notes\n") }, session.ErrDamaged, "line 1:"},
		"a newer version": {func(t *testing.T, file string) {
			t.Helper()
			writeFile(t, file, `{"format":"agenthost session","version":99}`+"\n")
		}, session.ErrNewer, "line 1:"},
		"a long line": {func(t *testing.T, file string) {
			t.Helper()
			require.NoError(t, os.Truncate(file, 8<<30)) // a sparse file
		}, session.ErrDamaged, "line 4: transcript is damaged: longer than"},
		"a folder": {func(t *testing.T, file string) {
			t.Helper()
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Mkdir(file, 0o700))
		}, session.ErrDamaged, "not a regular file"},
		"a link": {func(t *testing.T, file string) {
			t.Helper()
			require.NoError(t, os.Rename(file, file+".other"))
			require.NoError(t, os.Symlink(filepath.Base(file)+".other", file))
		}, session.ErrDamaged, "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store := newFiles(t, session.FilesConfig{Dir: dir})
			id := createSession(t, store, "one", "two")
			row.change(t, transcriptPath(t, dir, id))
			_, err := store.Transcript(t.Context(), id, 0, 10)
			require.ErrorIs(t, err, row.want)
			require.ErrorContains(t, err, "read transcript "+id+" of agent a: ")
			require.ErrorContains(t, err, row.text)
			_, err = store.Open(t.Context(), "a", id)
			require.Error(t, err)
			if name == "a long line" {
				require.ErrorContains(t, err, row.text)
			}
			requireClosed(t, dir, 0)
		})
	}
}

// The header identifies the session, also to Transcript. Only the folders of agents are read.
func TestTranscriptAndDeleteIdentifyASession(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	id := createSession(t, store, "one")
	file := transcriptPath(t, dir, id)
	agent := filepath.Dir(filepath.Dir(file))
	base := filepath.Dir(agent)
	text := readFile(t, file)
	for _, folder := range []string{"A--", "aa"} { // "A--" cannot be the id of an agent
		require.NoError(t, os.MkdirAll(filepath.Join(base, folder, filepath.Base(filepath.Dir(file))), 0o700))
	}
	writeFile(t, filepath.Join(base, "a-file"), "text")
	invalid := strings.Replace(file, agent, filepath.Join(base, "A--"), 1)
	writeFile(t, invalid, strings.Replace(text, `"agent":"a"`, `"agent":"A--"`, 1))
	foreign := strings.Replace(file, agent, filepath.Join(base, "aa"), 1)
	renamed := filepath.Join(agent, "renamed.jsonl")
	writeFile(t, foreign, text)
	writeFile(t, renamed, text)

	found, err := store.Transcript(t.Context(), id, 0, 10)
	require.NoError(t, err)
	require.Equal(t, "a", found.AgentID)
	require.NoError(t, os.Remove(file))
	for _, unknown := range []string{id, "renamed"} {
		_, err = store.Transcript(t.Context(), unknown, 0, 10)
		require.ErrorIs(t, err, session.ErrUnknown)
	}
	writeFile(t, file, text)
	flat := filepath.Join(agent, id+".jsonl") // of a former version
	writeFile(t, flat, text)
	require.NoError(t, store.Delete(t.Context(), id))
	for _, name := range []string{file, flat, foreign} {
		require.NoFileExists(t, name)
	}
	require.FileExists(t, invalid)
	require.FileExists(t, renamed)
}

func TestDeleteErrors(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	id := createSession(t, store, "one")
	file := transcriptPath(t, dir, id)
	temporary := strings.TrimSuffix(file, ".jsonl") + ".new"
	require.NoError(t, os.MkdirAll(filepath.Join(temporary, "x"), 0o700))
	require.ErrorContains(t, store.Delete(t.Context(), id), "delete session "+id+" of agent a: ")
	require.FileExists(t, file)
	require.NoError(t, os.RemoveAll(temporary))
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Mkdir(file, 0o700))
	for range 2 { // the first failure releases the session
		err := store.Delete(t.Context(), id)
		require.ErrorContains(t, err, "delete session "+id+" of agent a: ")
		require.NotErrorIs(t, err, session.ErrBusy)
	}
	require.NoError(t, os.Remove(file))
	require.NoError(t, store.Delete(t.Context(), id))
	requireClosed(t, dir, 0)
}

// requireClosed waits until at most n files and folders below dir are open: the sweep that begins
// with a store reads folders.
func requireClosed(t *testing.T, dir string, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(openFiles(t, dir)) <= n }, time.Minute, time.Millisecond)
}

// openFiles returns the open files and folders below dir, without the state directory itself, on
// Linux.
func openFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, link := range links {
		if name, _ := os.Readlink(link); strings.HasPrefix(name, dir+"/") {
			names = append(names, name)
		}
	}
	return names
}
