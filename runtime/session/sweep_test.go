package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/session"
)

// age makes a file look as if it had last been written so long ago.
func age(t *testing.T, name string, by time.Duration) {
	t.Helper()
	require.NoError(t, os.Chtimes(name, time.Time{}, time.Now().Add(-by)))
}

func TestFilesForgetWhatIsOld(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	store := files(t, session.FilesConfig{Dir: dir, CWD: cwd})
	first, second, held := conversation(t, store, "one"), conversation(t, store, "two"), conversation(t, store, "three")

	age(t, fileOf(t, dir, first), 720*time.Hour-time.Minute)
	s := open(t, store, "a", first)
	require.True(t, s.Resumed(), "not old yet")
	say(t, s, "more")
	require.NoError(t, s.Close())
	s = open(t, store, "a", first)
	require.True(t, s.Resumed())
	require.NoError(t, s.Close())

	// An old one is unknown at once, whether a sweep has come by or not.
	age(t, fileOf(t, dir, second), 720*time.Hour)
	s = open(t, store, "a", second)
	require.False(t, s.Resumed())
	require.NoError(t, s.Close())
	require.Empty(t, glob(t, dir, second+".jsonl"))

	// What is in use stays, however old, also for another store, as another process has it.
	s = open(t, store, "a", held)
	age(t, fileOf(t, dir, held), 1000*time.Hour)
	_ = files(t, session.FilesConfig{Dir: dir, CWD: cwd})
	require.Len(t, glob(t, dir, held+".jsonl"), 1)
	say(t, s, "more")
	require.NoError(t, s.Close())
	s = open(t, store, "a", held)
	require.True(t, s.Resumed())
	require.NoError(t, s.Close())
}

func TestSweepAtStart(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	store := files(t, session.FilesConfig{Dir: dir, CWD: cwd})
	other := files(t, session.FilesConfig{Dir: dir})
	kept, old, elsewhere := conversation(t, store, "one"), conversation(t, store, "two"), conversation(t, other, "three")
	damaged := conversation(t, store, "four")
	write(t, fileOf(t, dir, damaged), "garbage\n")
	notes := filepath.Join(filepath.Dir(fileOf(t, dir, kept)), "notes.txt")
	write(t, notes, "not ours")
	for _, id := range []string{old, elsewhere} {
		age(t, fileOf(t, dir, id), 2*time.Hour)
	}
	age(t, notes, 2*time.Hour)
	age(t, fileOf(t, dir, kept), 30*time.Minute)

	_ = files(t, session.FilesConfig{Dir: dir, CWD: cwd, TTL: time.Hour})
	require.Empty(t, glob(t, dir, old+".jsonl"))
	for _, name := range []string{kept + ".jsonl", elsewhere + ".jsonl", damaged + ".jsonl", "notes.txt"} {
		require.Len(t, glob(t, dir, name), 1, name)
	}
}

// What the start leaves, for there is too much of it, goes as sessions are opened.
func TestSweepGoesOn(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	file := fileOf(t, dir, conversation(t, files(t, session.FilesConfig{Dir: dir, CWD: cwd}), "one"))
	text := read(t, file)
	for agent := range 3 {
		folder := filepath.Join(filepath.Dir(filepath.Dir(file)), fmt.Sprint("agent-", agent))
		require.NoError(t, os.Mkdir(folder, 0o700))
		for i := range 200 {
			name := filepath.Join(folder, fmt.Sprint(i, ".jsonl"))
			write(t, name, text)
			age(t, name, 1000*time.Hour)
		}
	}
	before := len(glob(t, dir, "*"))
	store := files(t, session.FilesConfig{Dir: dir, CWD: cwd})
	left := len(glob(t, dir, "*"))
	require.Less(t, left, before)
	require.Greater(t, left, before-100, "the start is bounded")
	for range 300 {
		require.NoError(t, open(t, store, "a", "").Close())
		now := len(glob(t, dir, "*"))
		require.GreaterOrEqual(t, now, left-5, "so is each open")
		left = now
	}
	require.Equal(t, []string{file}, glob(t, dir, "*"))
}

func TestFilesGoOnWhenTheirDirectoryIsRemoved(t *testing.T) {
	dir := t.TempDir()
	store := files(t, session.FilesConfig{Dir: dir})
	id := conversation(t, store, "one")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "sessions")))
	s := open(t, store, "a", id)
	require.False(t, s.Resumed())
	say(t, s, "two")
	require.NoError(t, s.Close())
	s = open(t, store, "a", s.ID())
	require.Equal(t, []string{"two"}, texts(s))
	require.NoError(t, s.Close())
}

// glob finds files in the directories of agents.
func glob(t *testing.T, dir, name string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "sessions", "*", "*", name))
	require.NoError(t, err)
	return found
}
