package runtime_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// kernels are the kernel of the system, and one that cannot create namespaces. They report whether
// the test continues in this process.
var kernels = map[string]func(t *testing.T) bool{
	"namespaces": func(*testing.T) bool { return true },
	"landlock":   func(t *testing.T) bool { return restrictKernel(t, false) },
}

const restrictedKernel = "AGENTHOST_TEST_RESTRICTED_KERNEL"

// restrictKernel executes the test in a process of its own, for which the kernel creates no
// namespaces, and has no Landlock if all is set. It returns true in that process.
func restrictKernel(t *testing.T, all bool) bool {
	t.Helper()
	if os.Getenv(restrictedKernel) == t.Name() {
		require.NoError(t, denyCalls(all))
		return true
	}
	self, err := os.Executable()
	require.NoError(t, err)
	var pattern []string
	for part := range strings.SplitSeq(t.Name(), "/") {
		pattern = append(pattern, "^"+part+"$")
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.v", "-test.run="+strings.Join(pattern, "/"))
	cmd.Env = append(os.Environ(), restrictedKernel+"="+t.Name())
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: "+t.Name())
	return false
}

// denyCalls installs a seccomp filter in this process, for the rest of its life.
func denyCalls(landlock bool) error {
	const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	jump := func(operation uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | operation, K: k, Jt: yes, Jf: no}
	}
	result := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	missing := uint32(unix.SYS_CLONE3)
	if landlock {
		missing = unix.SYS_LANDLOCK_CREATE_RULESET
	}
	program := []unix.SockFilter{
		load(0), // the number of the call
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 7, 0),
		jump(unix.BPF_JEQ, missing, 6, 0),
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 2, 0),
		jump(unix.BPF_JEQ, unix.SYS_UNSHARE, 1, 0),
		result(unix.SECCOMP_RET_ALLOW),
		load(16), // the lower half of the first argument
		jump(unix.BPF_JSET, namespaces, 2, 0),
		result(unix.SECCOMP_RET_ALLOW),
		result(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
		result(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return errors.New("install the filter: " + errno.Error())
	}
	return nil
}
