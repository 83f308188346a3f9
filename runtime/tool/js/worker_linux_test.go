package js_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

// TestWorkersAreConfined reads from the kernel that all threads of workers are confined. What that
// means is tested in the package sandbox. Workers have no descriptors of their parents.
func TestWorkersAreConfined(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	file, err := os.Open(secret)
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	inherited, err := syscall.Dup(int(file.Fd())) // without close-on-exec, as a parent may leave it
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(inherited) })
	self, err := os.Executable()
	require.NoError(t, err)
	for name, command := range map[string][]string{"a program without cgo": nil, "this program": {self, js.WorkerArg}} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			// A second worker would still be starting, and confine itself later.
			h := newHost(t, js.Config{Command: command, Workers: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			subject := load(t, h, wordCount)
			require.Equal(t, "2", call(t, subject, `{"text":"a b"}`).Output)
			pids := h.Workers()
			require.Len(t, pids, 1)
			_, err := subject.Call(t.Context(), tool.Call{Input: json.RawMessage(`{"text":"a"}`)})
			require.NoError(t, err)
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pids[0]))
			require.NoError(t, err)
			require.NotEmpty(t, threads)
			for _, thread := range threads {
				status, err := os.ReadFile(thread)
				if err != nil {
					continue // the thread has ended
				}
				require.Contains(t, string(status), "\nSeccomp:\t2\n")
				require.Contains(t, string(status), "\nNoNewPrivs:\t1\n")
			}
			descriptors, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pids[0]))
			require.NoError(t, err)
			for _, descriptor := range descriptors {
				target, err := os.Readlink(descriptor)
				require.NoError(t, err)
				require.NotEqual(t, secret, target)
			}
			require.NoError(t, h.Close())
			require.NotContains(t, log.String(), "not confined")
		})
	}
}

// TestWorkersThatCannotBeConfined runs workers on a system without seccomp: they work, and the log
// has one line.
func TestWorkersThatCannotBeConfined(t *testing.T) {
	var log bytes.Buffer
	self, err := os.Executable()
	require.NoError(t, err)
	h := newHost(t, js.Config{Command: []string{self, withoutSeccompArg}, Workers: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Equal(t, "2", call(t, load(t, h, wordCount), `{"text":"a b"}`).Output)
	require.Equal(t, "3", call(t, load(t, h, wordCount+"\n"), `{"text":"a b c"}`).Output)
	require.NoError(t, h.Close())
	require.Equal(t, 1, strings.Count(log.String(), "workers of custom tools are not confined by the kernel"), log.String())
	require.Contains(t, log.String(), "restrict with seccomp: ")
}

// workWithoutSeccomp replaces this program with a worker, for which the call of seccomp does not
// exist.
func workWithoutSeccomp([]string) error {
	runtime.LockOSThread()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SECCOMP, Jf: 1},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", []string{os.Args[0], js.WorkerArg}, os.Environ())
}
