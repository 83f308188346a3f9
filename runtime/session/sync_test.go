package session_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

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

// Close syncs the file, and then its directory if the name of the file is new: in this order, most
// file systems write once.
func TestCloseSyncsTheSession(t *testing.T) {
	store, dir, synced := newWatchedFiles(t)
	s := open(t, store, "a", "")
	appendText(t, s, "one")
	appendText(t, s, "two")
	require.Empty(t, synced(), "Append does not sync")
	require.NoError(t, s.Close())
	file := transcriptPath(t, dir, s.ID())
	transcript := func() string { return fmt.Sprintf("%s.jsonl %d", s.ID(), sizeOf(t, file)) }
	folder := "directory " + shard(s.ID())
	base := filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(file))))
	require.Equal(t, []string{transcript(), folder, "directory a", "directory " + base, "directory sessions", "directory ."},
		synced(), "a new session in a new folder")

	again := open(t, store, "a", s.ID())
	appendText(t, again, "three")
	require.NoError(t, again.Close())
	require.Equal(t, []string{transcript()}, synced(), "the name is not new")

	require.NoError(t, open(t, store, "a", s.ID()).Close())
	require.Empty(t, synced(), "nothing was appended")

	short := open(t, store, "a", s.ID())
	compact(t, short, "summary")
	require.Empty(t, synced(), "a compaction is a line like others")
	require.NoError(t, short.Close())
	require.Equal(t, []string{transcript()}, synced())

	long := open(t, store, "a", s.ID())
	appendText(t, long, strings.Repeat("x", 17<<20))
	compact(t, long, "summary")
	require.Equal(t, []string{fmt.Sprintf("%s.new %d", s.ID(), sizeOf(t, file))}, synced(), "before the rename")
	appendText(t, long, "four")
	require.NoError(t, long.Close())
	compacted := fmt.Sprintf("%s.new %d", s.ID(), sizeOf(t, file)) // the name at the time of the open
	require.Equal(t, []string{compacted, folder}, synced(), "the name belongs to a new file")

	require.NoError(t, store.Delete(t.Context(), s.ID()))
	require.Equal(t, []string{folder}, synced(), "a deleted name is synced")
	requireClosed(t, dir, 0)
}

func TestFilesReportAFailedSync(t *testing.T) {
	store := newFiles(t, session.FilesConfig{})
	full := errors.New("the disk is full")
	store.WatchSyncs(func(*os.File, func(*os.File) error) error { return full })
	long := strings.Repeat("x", 17<<20)
	s := open(t, store, "a", "")
	appendText(t, s, long)
	err := s.Compact(t.Context(), userMessages("summary"))
	require.ErrorIs(t, err, full)
	require.Len(t, texts(s)[0], len(long), "the session is unchanged")
	err = s.Close()
	require.ErrorIs(t, err, full)
	require.ErrorContains(t, err, "sync transcript: ")

	store.WatchSyncs(func(*os.File, func(*os.File) error) error { return nil })
	s = open(t, store, "a", s.ID())
	require.True(t, s.Resumed(), "the session is released, and its file was written")
	require.NoError(t, s.Close())
}

// Sessions that are closed together are synced together: each file, and each folder once for all
// that wait for it.
func TestSyncsOfManySessions(t *testing.T) {
	const sessions = 200
	store := newFiles(t, session.FilesConfig{})
	var mu sync.Mutex
	synced := map[string]int{}
	store.WatchSyncs(func(file *os.File, sync func(*os.File) error) error {
		info, err := file.Stat()
		if err != nil {
			return err
		}
		err = sync(file)
		mu.Lock()
		defer mu.Unlock()
		if info.IsDir() {
			synced[filepath.Base(file.Name())]++
		} else {
			synced["files"]++
		}
		return err
	})
	var open []session.Session
	for range sessions {
		s, err := store.Open(t.Context(), "a", "")
		require.NoError(t, err)
		appendText(t, s, "one")
		open = append(open, s)
	}
	var closing sync.WaitGroup
	for _, s := range open {
		closing.Go(func() { assertNoError(t, s.Close()) })
	}
	closing.Wait()
	require.Equal(t, sessions, synced["files"], "each file is synced")
	folders := map[string]bool{}
	for _, s := range open {
		folders[shard(s.ID())] = true
	}
	for folder := range folders {
		require.NotZero(t, synced[folder])
		require.Less(t, synced[folder], sessions/4)
	}
	require.NotZero(t, synced["a"], "the new folders are synced too")
	require.LessOrEqual(t, synced["a"], len(folders), "once for each of them")
}

// Requests that arrive during a sync are the next group, also a single one, and one without a file.
func TestRequestsDuringASync(t *testing.T) {
	for name, closed := range map[string]int{"one session": 1, "a deletion and sessions": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFiles(t, session.FilesConfig{})
				started, released := make(chan struct{}), make(chan struct{})
				hold := sync.OnceFunc(func() {
					close(started)
					<-released
				})
				deleted := createSession(t, store, "one")
				var open []session.Session
				for range closed + 1 {
					s, err := store.Open(t.Context(), "a", "")
					require.NoError(t, err)
					appendText(t, s, "one")
					open = append(open, s)
				}
				store.WatchSyncs(func(file *os.File, sync func(*os.File) error) error {
					hold()
					return sync(file)
				})
				var all sync.WaitGroup
				all.Go(func() { assertNoError(t, open[0].Close()) })
				<-started
				if closed > 1 {
					all.Go(func() { assertNoError(t, store.Delete(t.Context(), deleted)) })
					synctest.Wait() // it is the first one of the group
				}
				for _, s := range open[1:] {
					all.Go(func() { assertNoError(t, s.Close()) })
				}
				synctest.Wait()
				close(released)
				all.Wait()
				require.NoError(t, store.Close())
			})
		})
	}
}
