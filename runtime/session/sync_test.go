package session_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/session"
)

// newWatchedFiles returns a store. synced returns a line for each sync since its last call: a
// directory, or a file and its size.
func newWatchedFiles(t *testing.T) (store *session.Files, dir string, synced func() []string) {
	t.Helper()
	dir = t.TempDir()
	store = newFiles(t, session.FilesConfig{Dir: dir})
	lines := []string{}
	store.WatchSyncs(func(file *os.File, sync func(*os.File) error) error {
		info, err := file.Stat()
		require.NoError(t, err)
		if name := filepath.Base(file.Name()); info.IsDir() {
			lines = append(lines, "directory "+name)
		} else {
			lines = append(lines, fmt.Sprintf("%s %d", name, info.Size()))
		}
		require.ErrorIs(t, sync(closedFile(t)), os.ErrClosed, "the original function is called")
		return sync(file)
	})
	return store, dir, func() []string {
		all := lines
		lines = []string{}
		return all
	}
}

// closedFile returns a file that cannot be synced.
func closedFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return f
}

// Close syncs the file, and its directory if the name of the file is new.
func TestCloseSyncsTheSession(t *testing.T) {
	store, dir, synced := newWatchedFiles(t)
	s := open(t, store, "a", "")
	appendText(t, s, "one")
	appendText(t, s, "two")
	require.Empty(t, synced(), "Append does not sync")
	require.NoError(t, s.Close())
	file := transcriptPath(t, dir, s.ID())
	transcript := func() string { return fmt.Sprintf("%s.jsonl %d", s.ID(), sizeOf(t, file)) }
	require.Equal(t, []string{transcript(), "directory a"}, synced(), "a new session")

	again := open(t, store, "a", s.ID())
	appendText(t, again, "three")
	require.NoError(t, again.Close())
	require.Equal(t, []string{transcript()}, synced(), "the name is not new")

	require.NoError(t, open(t, store, "a", s.ID()).Close())
	require.Empty(t, synced(), "nothing was appended")

	short := open(t, store, "a", s.ID())
	before := sizeOf(t, file)
	require.NoError(t, short.Compact(t.Context(), userMessages("summary")))
	require.Equal(t, []string{fmt.Sprintf("%s.new %d", s.ID(), sizeOf(t, file))}, synced(), "before the rename")
	require.NotEqual(t, before, sizeOf(t, file))
	appendText(t, short, "four")
	require.NoError(t, short.Close())
	compacted := fmt.Sprintf("%s.new %d", s.ID(), sizeOf(t, file)) // the name at the time of the open
	require.Equal(t, []string{compacted, "directory a"}, synced(), "the name belongs to a new file")
}

func TestFilesReportAFailedSync(t *testing.T) {
	store := newFiles(t, session.FilesConfig{})
	full := errors.New("the disk is full")
	store.WatchSyncs(func(*os.File, func(*os.File) error) error { return full })
	s := open(t, store, "a", "")
	appendText(t, s, "one")
	err := s.Compact(t.Context(), userMessages("summary"))
	require.ErrorIs(t, err, full)
	require.Equal(t, []string{"one"}, texts(s), "the session is unchanged")
	err = s.Close()
	require.ErrorIs(t, err, full)
	require.ErrorContains(t, err, "sync transcript: ")

	store.WatchSyncs(func(*os.File, func(*os.File) error) error { return nil })
	s = open(t, store, "a", s.ID())
	require.True(t, s.Resumed(), "the session is released, and its file was written")
	require.NoError(t, s.Close())
}
