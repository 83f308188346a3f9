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

// sweep opens a store for a minute, in which files have these ages and all others are new. The
// store sweeps once.
func sweep(t *testing.T, cfg session.FilesConfig, ages map[string]time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for name, age := range ages {
			setAge(t, name, age)
		}
		store, err := session.NewFiles(cfg)
		require.NoError(t, err)
		<-time.After(time.Minute)
		require.NoError(t, store.Close())
	})
}

func TestFilesExpire(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd})
	first, second := createSession(t, store, "one"), createSession(t, store, "two")

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
}

// A session in use is not removed, whatever its age. The store of the sweep represents another
// process.
func TestSweepOmitsSessionsInUse(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd})
	inUse := createSession(t, store, "one")
	s := open(t, store, "a", inUse)
	file := transcriptPath(t, dir, inUse)
	sweep(t, session.FilesConfig{Dir: dir, CWD: cwd}, map[string]time.Duration{file: 1000 * time.Hour})
	require.FileExists(t, file)
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
	agent := filepath.Dir(filepath.Dir(transcriptPath(t, dir, kept)))
	notes, flat := filepath.Join(agent, "notes.txt"), filepath.Join(agent, "of-a-former-version.jsonl")
	elsewhere = transcriptPath(t, dir, elsewhere)
	kept, expired, damaged = transcriptPath(t, dir, kept), transcriptPath(t, dir, expired), transcriptPath(t, dir, damaged)
	for _, name := range []string{notes, flat, filepath.Join(agent, "other")} {
		writeFile(t, name, "text")
	}
	require.NoError(t, os.Symlink(filepath.Dir(filepath.Dir(elsewhere)), filepath.Join(filepath.Dir(agent), "link")))

	sweep(t, session.FilesConfig{Dir: dir, CWD: cwd, TTL: time.Hour}, map[string]time.Duration{
		expired: 2 * time.Hour, flat: 2 * time.Hour, notes: 2 * time.Hour, elsewhere: 2 * time.Hour, kept: 30 * time.Minute,
	})
	require.NoFileExists(t, expired)
	require.NoFileExists(t, flat)
	for _, name := range []string{kept, elsewhere, damaged, notes, filepath.Join(agent, "other")} {
		require.FileExists(t, name)
	}
}

// A sweep of many files has short steps, and the next one begins an hour after its end.
func TestSweepOfManyFiles(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	file := transcriptPath(t, dir, createSession(t, newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd}), "one"))
	base, text := filepath.Dir(filepath.Dir(filepath.Dir(file))), readFile(t, file)
	fill := func(folder string) {
		folder = filepath.Join(base, folder)
		require.NoError(t, os.MkdirAll(folder, 0o700))
		for i := range 350 {
			name := filepath.Join(folder, fmt.Sprint(i, ".jsonl"))
			writeFile(t, name, text)
			require.NoError(t, os.Chtimes(name, time.Time{}, time.Unix(0, 0)))
		}
	}
	left := func() (n int) {
		require.NoError(t, filepath.WalkDir(base, func(_ string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return err
		}))
		return n
	}
	for _, folder := range []string{"agent-0", "agent-0/00", "agent-1/ff"} {
		fill(folder)
	}
	synctest.Test(t, func(t *testing.T) {
		store, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: cwd})
		require.NoError(t, err)
		for before := 1051; before > 1; before = left() {
			synctest.Wait()
			require.GreaterOrEqual(t, left(), before-64)
			<-time.After(time.Second / 50)
		}
		require.FileExists(t, file)
		<-time.After(time.Minute)
		fill("agent-1/ff")
		<-time.After(50 * time.Minute)
		require.Equal(t, 351, left())
		<-time.After(20 * time.Minute)
		require.Equal(t, 1, left())
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
	found, err := filepath.Glob(filepath.Join(dir, "sessions", "*", "*", "*", name))
	require.NoError(t, err)
	return found
}
