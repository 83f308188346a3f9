package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/session"
)

// setAge sets the time of the last write.
func setAge(t *testing.T, name string, by time.Duration) {
	t.Helper()
	require.NoError(t, os.Chtimes(name, time.Time{}, time.Now().Add(-by)))
}

func TestFilesExpire(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd})
	first, second, inUse := createSession(t, store, "one"), createSession(t, store, "two"), createSession(t, store, "three")

	setAge(t, transcriptPath(t, dir, first), 720*time.Hour-time.Minute)
	s := open(t, store, "a", first)
	require.True(t, s.Resumed(), "not expired yet")
	appendText(t, s, "more")
	require.NoError(t, s.Close())
	s = open(t, store, "a", first)
	require.True(t, s.Resumed())
	require.NoError(t, s.Close())

	// An expired session is unknown even before a sweep.
	setAge(t, transcriptPath(t, dir, second), 720*time.Hour)
	s = open(t, store, "a", second)
	require.False(t, s.Resumed())
	require.NoError(t, s.Close())
	require.Empty(t, glob(t, dir, second+".jsonl"))

	// A session in use is not removed, whatever its age. The second store represents another
	// process.
	s = open(t, store, "a", inUse)
	setAge(t, transcriptPath(t, dir, inUse), 1000*time.Hour)
	_ = newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd})
	require.Len(t, glob(t, dir, inUse+".jsonl"), 1)
	appendText(t, s, "more")
	require.NoError(t, s.Close())
	s = open(t, store, "a", inUse)
	require.True(t, s.Resumed())
	require.NoError(t, s.Close())
}

func TestSweepAtStart(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd})
	other := newFiles(t, session.FilesConfig{Dir: dir})
	kept, expired, elsewhere := createSession(t, store, "one"), createSession(t, store, "two"), createSession(t, other, "three")
	damaged := createSession(t, store, "four")
	writeFile(t, transcriptPath(t, dir, damaged), "garbage\n")
	notes := filepath.Join(filepath.Dir(transcriptPath(t, dir, kept)), "notes.txt")
	writeFile(t, notes, "notes")
	for _, id := range []string{expired, elsewhere} {
		setAge(t, transcriptPath(t, dir, id), 2*time.Hour)
	}
	setAge(t, notes, 2*time.Hour)
	setAge(t, transcriptPath(t, dir, kept), 30*time.Minute)

	_ = newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd, TTL: time.Hour})
	require.Empty(t, glob(t, dir, expired+".jsonl"))
	for _, name := range []string{kept + ".jsonl", elsewhere + ".jsonl", damaged + ".jsonl", "notes.txt"} {
		require.Len(t, glob(t, dir, name), 1, name)
	}
}

// Expired files that exceed the limit of a sweep are removed as sessions are opened later.
func TestSweepContinuesAtOpen(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	file := transcriptPath(t, dir, createSession(t, newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd}), "one"))
	text := readFile(t, file)
	for agent := range 3 {
		folder := filepath.Join(filepath.Dir(filepath.Dir(file)), fmt.Sprint("agent-", agent))
		require.NoError(t, os.Mkdir(folder, 0o700))
		for i := range 350 {
			name := filepath.Join(folder, fmt.Sprint(i, ".jsonl"))
			writeFile(t, name, text)
			require.NoError(t, os.Chtimes(name, time.Time{}, time.Unix(0, 0)))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		store, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: cwd})
		require.NoError(t, err)
		var left []int
		for range 5 {
			left = append(left, len(glob(t, dir, "*.jsonl")))
			require.NoError(t, open(t, store, "a", "").Close())
			<-time.After(40 * time.Second)
		}
		require.Equal(t, []int{551, 551, 551, 51, 51}, left)
		require.NoError(t, open(t, store, "a", "").Close())
		require.Equal(t, []string{file}, glob(t, dir, "*.jsonl"))
		require.NoError(t, store.Close())
	})
}

func TestFilesRecreateARemovedDirectory(t *testing.T) {
	dir := t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir})
	id := createSession(t, store, "one")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "sessions")))
	s := open(t, store, "a", id)
	require.False(t, s.Resumed())
	appendText(t, s, "two")
	require.NoError(t, s.Close())
	s = open(t, store, "a", s.ID())
	require.Equal(t, []string{"two"}, texts(s))
	require.NoError(t, s.Close())
}

// glob returns the matching files in the directories of agents.
func glob(t *testing.T, dir, name string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "sessions", "*", "*", name))
	require.NoError(t, err)
	return found
}
