package session_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
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
// store sweeps once, and reports nothing.
func sweep(t *testing.T, cfg session.FilesConfig, ages map[string]time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		for name, age := range ages {
			setAge(t, name, age)
		}
		var logs bytes.Buffer
		cfg.Logger = slog.New(slog.NewTextHandler(&logs, nil))
		store, err := session.NewFiles(cfg)
		require.NoError(t, err)
		<-time.After(time.Minute)
		require.NoError(t, store.Close())
		require.Empty(t, logs.String())
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

// A sweep removes only files that a store writes: it leaves files with other names or in other
// folders, and links.
func TestSweepLeavesOtherFiles(t *testing.T) {
	dir, cwd := t.TempDir(), t.TempDir()
	store := newFiles(t, session.FilesConfig{Dir: dir, CWD: cwd})
	file := transcriptPath(t, dir, createSession(t, store, "one"))
	shard := filepath.Dir(file)
	agent := filepath.Dir(shard)
	base := filepath.Dir(agent)
	ages := map[string]time.Duration{file: 1000 * time.Hour}
	for _, name := range []string{
		filepath.Join(base, "x.jsonl"), filepath.Join(base, "A", "x.jsonl"), filepath.Join(agent, "notes", "x.jsonl"),
		filepath.Join(agent, "000", "x.jsonl"), filepath.Join(shard, "00", "x.jsonl"), filepath.Join(shard, "a b.jsonl"),
		filepath.Join(shard, "..jsonl"), filepath.Join(shard, "a b.new"), filepath.Join(shard, "x.json"), filepath.Join(shard, "x"),
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		writeFile(t, name, "text")
		ages[name] = 1000 * time.Hour
	}
	target := filepath.Join(t.TempDir(), "target")
	writeFile(t, target, "text")
	ages[target] = 1000 * time.Hour
	for _, name := range []string{"link.jsonl", "link.new"} {
		require.NoError(t, os.Symlink(target, filepath.Join(shard, name)))
	}
	sweep(t, session.FilesConfig{Dir: dir, CWD: cwd}, ages)
	require.NoFileExists(t, file)
	delete(ages, file)
	for name := range ages {
		require.FileExists(t, name)
	}
	require.FileExists(t, filepath.Join(shard, "link.jsonl"))
	require.FileExists(t, filepath.Join(shard, "link.new"))
	require.Empty(t, openFiles(t, dir))
}

// A sweep of a store omits its own open sessions. The id of a session that it has removed is
// unknown, and is not in use.
func TestSweepOfTheOwnSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		store, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: dir})
		require.NoError(t, err)
		<-time.After(time.Minute) // the first sweep has ended
		used, expired := createSession(t, store, "one"), createSession(t, store, "two")
		s := open(t, store, "a", used)
		for _, id := range []string{used, expired} {
			setAge(t, transcriptPath(t, dir, id), 1000*time.Hour)
		}
		<-time.After(time.Hour)
		require.FileExists(t, transcriptPath(t, dir, used))
		require.Empty(t, glob(t, dir, expired+".jsonl"))
		require.NoError(t, store.Delete(t.Context(), expired))
		require.False(t, open(t, store, "a", expired).Resumed())
		appendText(t, s, "three")
		require.NoError(t, s.Close())
		require.NoError(t, store.Close())
	})
}

// Close ends a sweep in the middle of a folder.
func TestCloseDuringASweep(t *testing.T) {
	dir := t.TempDir()
	store, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: dir})
	require.NoError(t, err)
	shard := filepath.Dir(transcriptPath(t, dir, createSession(t, store, "one")))
	require.NoError(t, store.Close())
	for i := range 350 {
		writeFile(t, filepath.Join(shard, fmt.Sprint(i, ".jsonl")), "text")
	}
	synctest.Test(t, func(t *testing.T) {
		store, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: dir})
		require.NoError(t, err)
		<-time.After(50 * time.Millisecond)
		require.Contains(t, openFiles(t, dir), shard)
		require.NoError(t, store.Close())
		require.Empty(t, openFiles(t, dir))
	})
}

// A sweep reports what it cannot remove, such as a folder that has replaced a file.
func TestSweepReportsWhatItCannotRemove(t *testing.T) {
	dir := t.TempDir()
	store, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: dir})
	require.NoError(t, err)
	shard := filepath.Dir(transcriptPath(t, dir, createSession(t, store, "one")))
	require.NoError(t, store.Close())
	for i := range 100 {
		writeFile(t, filepath.Join(shard, fmt.Sprint(i, ".jsonl")), "text")
	}
	synctest.Test(t, func(t *testing.T) {
		for i := range 100 {
			setAge(t, filepath.Join(shard, fmt.Sprint(i, ".jsonl")), 1000*time.Hour)
		}
		var logs bytes.Buffer
		store, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: dir, Logger: slog.New(slog.NewTextHandler(&logs, nil))})
		require.NoError(t, err)
		<-time.After(10 * time.Millisecond) // within the first step, which has listed more than it has examined
		left, err := filepath.Glob(filepath.Join(shard, "[0-9].jsonl"))
		require.NoError(t, err)
		more, err := filepath.Glob(filepath.Join(shard, "[0-9][0-9].jsonl"))
		require.NoError(t, err)
		for _, name := range append(left, more...) {
			require.NoError(t, os.Remove(name))
			require.NoError(t, os.Mkdir(name, 0o700))
			setAge(t, name, 1000*time.Hour)
		}
		<-time.After(time.Minute)
		require.NoError(t, store.Close())
		require.Contains(t, logs.String(), "cannot remove an expired transcript")
		require.Contains(t, logs.String(), "agent=a ")
	})
}

// blockingHandler is a handler of log records that blocks until it is released.
type blockingHandler struct {
	slog.Handler
	logged, released chan struct{}
}

func (h blockingHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	close(h.logged)
	<-h.released
	return err
}

// A sweep reports a folder that it cannot list, such as a link out of the state directory, and
// Close waits for the sweep.
func TestCloseWaitsForASweep(t *testing.T) {
	dir, cwd, outside := t.TempDir(), t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		h := blockingHandler{slog.NewTextHandler(&logs, nil), make(chan struct{}), make(chan struct{})}
		store, err := session.NewFiles(session.FilesConfig{Dir: dir, CWD: cwd, Logger: slog.New(h)})
		require.NoError(t, err)
		<-time.After(time.Minute)
		bases, err := filepath.Glob(filepath.Join(dir, "sessions", "*"))
		require.NoError(t, err)
		require.Len(t, bases, 1)
		require.NoError(t, os.Remove(bases[0]))
		require.NoError(t, os.Symlink(outside, bases[0]))
		<-h.logged
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			assertNoError(t, store.Close())
		}()
		synctest.Wait()
		select {
		case <-closed:
			require.Fail(t, "the sweep is in progress")
		default:
		}
		close(h.released)
		<-closed
		require.Contains(t, logs.String(), "cannot list a folder of transcripts")
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
