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

// watched is a store, and a line for each sync that it has made: what of it, and of a file with how many bytes in it.
func watched(t *testing.T) (store *session.Files, dir string, synced func() []string) {
	t.Helper()
	dir = t.TempDir()
	store = files(t, session.FilesConfig{Dir: dir})
	lines := []string{}
	store.WatchSyncs(func(file *os.File, sync func(*os.File) error) error {
		info, err := file.Stat()
		require.NoError(t, err)
		if name := filepath.Base(file.Name()); info.IsDir() {
			lines = append(lines, "directory "+name)
		} else {
			lines = append(lines, fmt.Sprintf("%s %d", name, info.Size()))
		}
		require.ErrorIs(t, sync(closed(t)), os.ErrClosed, "it asks the system")
		return sync(file)
	})
	return store, dir, func() []string {
		all := lines
		lines = []string{}
		return all
	}
}

// closed is a file that cannot be synced.
func closed(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Open(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return f
}

// TestFilesAreSyncedWhenTheRunEnds: all that was said by then, and the file's name if it is new.
func TestFilesAreSyncedWhenTheRunEnds(t *testing.T) {
	store, dir, synced := watched(t)
	s := open(t, store, "a", "")
	say(t, s, "one")
	say(t, s, "two")
	require.Empty(t, synced(), "a run waits for the disk once")
	require.NoError(t, s.Close())
	file := fileOf(t, dir, s.ID())
	transcript := func() string { return fmt.Sprintf("%s.jsonl %d", s.ID(), sizeOf(t, file)) }
	require.Equal(t, []string{transcript(), "directory a"}, synced(), "a new session")

	again := open(t, store, "a", s.ID())
	say(t, again, "three")
	require.NoError(t, again.Close())
	require.Equal(t, []string{transcript()}, synced(), "its name is known")

	require.NoError(t, open(t, store, "a", s.ID()).Close())
	require.Empty(t, synced(), "nothing was said")

	short := open(t, store, "a", s.ID())
	before := sizeOf(t, file)
	require.NoError(t, short.Compact(t.Context(), said("summary")))
	require.Equal(t, []string{fmt.Sprintf("%s.new %d", s.ID(), sizeOf(t, file))}, synced(), "before it takes the old one's place")
	require.NotEqual(t, before, sizeOf(t, file))
	say(t, short, "four")
	require.NoError(t, short.Close())
	whole := fmt.Sprintf("%s.new %d", s.ID(), sizeOf(t, file)) // as it was opened
	require.Equal(t, []string{whole, "directory a"}, synced(), "another file has the name")
}

func TestFilesTellOfASyncThatFails(t *testing.T) {
	store := files(t, session.FilesConfig{})
	full := errors.New("the disk is full")
	store.WatchSyncs(func(*os.File, func(*os.File) error) error { return full })
	s := open(t, store, "a", "")
	say(t, s, "one")
	err := s.Compact(t.Context(), said("summary"))
	require.ErrorIs(t, err, full)
	require.Equal(t, []string{"one"}, texts(s), "all is as it was")
	err = s.Close()
	require.ErrorIs(t, err, full)
	require.ErrorContains(t, err, "sync transcript: ")

	store.WatchSyncs(func(*os.File, func(*os.File) error) error { return nil })
	s = open(t, store, "a", s.ID())
	require.True(t, s.Resumed(), "it is free, and has what was written")
	require.NoError(t, s.Close())
}
