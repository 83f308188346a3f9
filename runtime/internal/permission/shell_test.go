package permission_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shellRunner runs commands in a real bash. The programs that they find are stubs, which record how
// they were called, and those real programs that a test links.
type shellRunner struct {
	bash, bin, cwd, record string
	files                  []string      // in the directory in which a command runs
	limit                  time.Duration // of a command
}

const recorder = "#!/bin/sh\nprintf '%s\\0' \"$#\" \"${0##*/}\" \"$@\" >>\"$RECORD\"\n"

func newShell(t testing.TB, stubs ...string) *shellRunner {
	t.Helper()
	bash, err := exec.LookPath("bash")
	require.NoError(t, err)
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	s := &shellRunner{bash: bash, bin: filepath.Join(root, "bin"), cwd: filepath.Join(root, "cwd"), record: filepath.Join(root, "record"), limit: 10 * time.Second}
	if _, fuzzing := t.(*testing.F); fuzzing {
		// At its end, fuzzing kills a worker that does not return within 2 s. A command that loops
		// would survive, and fuzzing would wait for it.
		s.limit = time.Second
	}
	require.NoError(t, os.Mkdir(s.bin, 0o700))
	for _, name := range stubs {
		require.NoError(t, os.WriteFile(filepath.Join(s.bin, name), []byte(recorder), 0o700))
	}
	return s
}

// link makes a program of the system available, if it is installed.
func (s *shellRunner) link(t testing.TB, name string) bool {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		return false
	}
	require.NoError(t, os.Symlink(path, filepath.Join(s.bin, name)))
	return true
}

// run returns the calls of stubs that a command makes, each with its name first, and the files that
// it creates.
func (s *shellRunner) run(t testing.TB, command string) (calls [][]string, files []string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(s.cwd))
	require.NoError(t, os.Mkdir(s.cwd, 0o700))
	for _, name := range s.files {
		require.NoError(t, os.WriteFile(filepath.Join(s.cwd, name), nil, 0o600))
	}
	require.NoError(t, os.RemoveAll(s.record))
	ctx, cancel := context.WithTimeout(context.Background(), s.limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.bash, "-c", command)
	cmd.Dir, cmd.Env = s.cwd, []string{"PATH=" + s.bin, "HOME=" + s.cwd, "LANG=C.UTF-8", "RECORD=" + s.record}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = s.limit
	_ = cmd.Run() // most commands fail
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left in the background
	}
	record, err := os.ReadFile(s.record)
	if err == nil {
		fields := strings.Split(string(bytes.TrimSuffix(record, []byte{0})), "\x00")
		for len(fields) > 1 {
			count, err := strconv.Atoi(fields[0])
			if err != nil || len(fields) < count+2 {
				break // a killed writer
			}
			calls = append(calls, fields[1:count+2])
			fields = fields[count+2:]
		}
	}
	entries, err := os.ReadDir(s.cwd)
	require.NoError(t, err)
	for _, e := range entries {
		if !slices.Contains(s.files, e.Name()) {
			files = append(files, e.Name())
		}
	}
	return calls, files
}
