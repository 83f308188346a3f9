//go:build darwin || linux

package artifact_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/blob"
	"github.com/seed93082962/agenthost/hub/blob/blobtest"
	"github.com/seed93082962/agenthost/hub/internal/artifact"
	"github.com/seed93082962/agenthost/hub/wire"
)

// childEnv is set in a process whose files are limited.
const childEnv = "ARTIFACT_TEST_CHILD"

// A limit on the size of files applies to all tests of a process: it needs one of its own.
func TestAFullDisk(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		fillDisk(t)
		return
	}
	t.Parallel()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAFullDisk$", "-test.v")
	child.Env = append(os.Environ(), childEnv+"=1")
	out, err := child.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestAFullDisk")
}

// fillDisk checks uploads while files can have at most 50,000 bytes.
func fillDisk(t *testing.T) {
	t.Helper()
	driver := folder(t)
	temp := t.TempDir()
	s := open(t, func(c *artifact.Config) { c.Driver, c.TempDir = driver, temp })
	content := blobtest.Content(100_000)
	stored := put(t, s, artifact.Tools, "stored.ts", content)
	waiting, err := s.NewUpload()
	require.NoError(t, err)
	_, err = waiting.ReadFrom(bytes.NewReader(content))
	require.NoError(t, err)

	limited(t, 50_000, func() error {
		_, received := s.Put(t.Context(), artifact.Tools, "received.ts", bytes.NewReader(content))
		_, committed := waiting.Commit(t.Context(), artifact.Tools, "committed.ts")
		_, again := waiting.Commit(t.Context(), artifact.Tools, "stored.ts")
		for _, err := range []error{received, committed, again} {
			failed, ok := errors.AsType[*wire.Error](err)
			if !ok || failed.Code != wire.Unavailable || !errors.Is(err, blob.ErrFull) || failed.Message != "The store of files is full: an operator must free space." {
				return fmt.Errorf("the error of a full disk is %w", err)
			}
		}
		return nil
	})
	entries, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, entries)
	var keys []string
	for info, err := range driver.List(t.Context(), "") {
		require.NoError(t, err)
		require.EqualValues(t, len(content), info.Size)
		keys = append(keys, info.Key)
	}
	require.Equal(t, []string{stored.Key()}, keys)

	ref, err := waiting.Commit(t.Context(), artifact.Tools, "committed.ts")
	require.NoError(t, err)
	require.NoError(t, waiting.Close())
	exist, err := s.Exist(t.Context(), stored, ref)
	require.NoError(t, err)
	require.Equal(t, []bool{true, true}, exist)
}

// limited calls do while files have a limit. It writes no file itself.
func limited(t *testing.T, limit uint64, do func() error) {
	t.Helper()
	var original syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &original))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: original.Max}))
	err := do()
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &original))
	require.NoError(t, err)
}
