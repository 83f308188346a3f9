package groupsync_test

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/groupsync"
)

// manyFiles is more than a queue of the kernel has at once.
const manyFiles = 300

func writeFiles(t *testing.T, n int) []*os.File {
	t.Helper()
	dir := t.TempDir()
	files := make([]*os.File, n)
	for i := range files {
		file, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		require.NoError(t, err)
		t.Cleanup(func() { _ = file.Close() })
		_, err = file.WriteString("text")
		require.NoError(t, err)
		files[i] = file
	}
	return files
}

// syncAll returns the errors of files, and the number of calls of done for each.
func syncAll(s *groupsync.Syncer, files []*os.File) (errs []error, calls []int) {
	errs, calls = make([]error, len(files)), make([]int, len(files))
	var mu sync.Mutex
	s.Sync(files, func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		errs[i] = err
		calls[i]++
	})
	return errs, calls
}

// eachWay runs a test with a Syncer that has a queue of the kernel, if there is one, and with one
// that has none.
func eachWay(t *testing.T, test func(t *testing.T, s *groupsync.Syncer)) {
	t.Helper()
	t.Run("queue", func(t *testing.T) {
		var s groupsync.Syncer
		defer s.Close()
		test(t, &s)
	})
	t.Run("threads", func(t *testing.T) {
		var s groupsync.Syncer
		s.Close()
		test(t, &s)
	})
}

func TestSyncWritesAllFiles(t *testing.T) {
	eachWay(t, func(t *testing.T, s *groupsync.Syncer) {
		t.Helper()
		for _, n := range []int{0, 1, 2, manyFiles, 2} {
			reference := writeFiles(t, 1)[0]
			require.NoError(t, reference.Sync())
			files := writeFiles(t, n)
			errs, calls := syncAll(s, files)
			for i := range files {
				require.NoError(t, errs[i])
				require.Equal(t, 1, calls[i])
				require.Equal(t, unsynced(t, reference), unsynced(t, files[i]))
			}
		}
	})
}

// A file that cannot be synced does not affect the others. The queue rejects these files. A disk
// that fails after that is a test of tools/soak/chaos, because it needs root.
func TestSyncReportsTheErrorsOfFiles(t *testing.T) {
	eachWay(t, func(t *testing.T, s *groupsync.Syncer) {
		t.Helper()
		files := writeFiles(t, 5)
		require.NoError(t, files[1].Close())
		reader, writer, err := os.Pipe()
		require.NoError(t, err)
		defer reader.Close()
		defer writer.Close()
		files[3] = writer
		errs, calls := syncAll(s, files)
		require.Equal(t, []int{1, 1, 1, 1, 1}, calls)
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], os.ErrClosed)
		require.NoError(t, errs[2])
		require.Equal(t, writer.Sync(), errs[3])
		require.NoError(t, errs[4])
	})
}

func TestSyncsOfSeveralGoroutines(t *testing.T) {
	eachWay(t, func(t *testing.T, s *groupsync.Syncer) {
		t.Helper()
		var groups [8][]error
		var running sync.WaitGroup
		for i := range groups {
			files := writeFiles(t, 20)
			running.Go(func() { groups[i], _ = syncAll(s, files) })
		}
		running.Wait()
		for _, errs := range groups {
			require.Equal(t, make([]error, 20), errs)
		}
	})
}
