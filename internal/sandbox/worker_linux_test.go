package sandbox_test

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/internal/sandbox"
)

func TestConfinedWorker(t *testing.T) {
	inherited, err := os.Open("/dev/null") // a descriptor without close-on-exec, as a parent may leave it
	require.NoError(t, err)
	t.Cleanup(func() { _ = inherited.Close() })
	var output bytes.Buffer
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"test", "worker", "confined", ""}, Env: []string{}, Dir: "/",
		Stdout: &output, Stderr: &output, ExtraFiles: []*os.File{inherited},
	}
	require.NoError(t, cmd.Run(), output.String())
	require.Contains(t, output.String(), "done\n")
	for line := range strings.Lines(strings.TrimSpace(output.String())) {
		require.NotContains(t, line, "SUCCEEDED")
	}
}

// A kernel or a container that denies the call of seccomp is reported.
func TestWorkerWithoutSeccomp(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "new")
	for denial, unsupported := range map[string]string{"ENOSYS": "true", "EPERM": "false"} {
		cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"test", "worker", denial, directory}, Env: []string{}, Dir: "/"}
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, string(output))
		require.Contains(t, string(output), "unsupported: "+unsupported)
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_GETPID, 0, 0, 0); errno == 0 { // a program without cgo
			require.Contains(t, string(output), "with Landlock: mkdir "+directory+": permission denied")
		}
	}
}

// actAsWorker is the main function of a worker.
func actAsWorker(mode, directory string) {
	switch mode {
	case "start plain", "start confined":
		if mode == "start confined" && sandbox.ConfineWorker() != nil {
			os.Exit(1)
		}
		return
	case "ENOSYS", "EPERM":
		denySeccomp(map[string]uint32{"ENOSYS": uint32(unix.ENOSYS), "EPERM": uint32(unix.EPERM)}[mode])
		err := sandbox.ConfineWorker()
		fmt.Println("unsupported:", errors.Is(err, errors.ErrUnsupported), err)
		fmt.Println("with Landlock:", os.Mkdir(directory, 0o700))
		return
	}
	parent := uintptr(os.Getppid())
	const before = 3 // threads that exist when the process is confined
	confined := make(chan struct{})
	results := make(chan []string)
	attack := func() {
		runtime.LockOSThread()
		<-confined
		results <- succeeded(parent)
	}
	for range before {
		go attack()
	}
	if err := sandbox.ConfineWorker(); err != nil {
		fmt.Println("not confined:", err)
		os.Exit(1)
	}
	close(confined)
	go attack() // on a thread that is started now
	for range before + 1 {
		for _, name := range <-results {
			fmt.Println("SUCCEEDED:", name)
		}
	}
	if err := compute(); err != nil {
		fmt.Println("cannot compute:", err)
		os.Exit(1)
	}
	fmt.Println("done")
}

// compute does what the worker of a tool does.
func compute() error {
	var blocks [][]byte
	done := make(chan error)
	for range 20 {
		go func() {
			runtime.LockOSThread() // a thread that ends with the goroutine
			_, err := rand.Read(make([]byte, 300))
			<-time.After(time.Millisecond)
			done <- err
		}()
		blocks = append(blocks, make([]byte, 4<<20))
		if err := <-done; err != nil {
			return err
		}
		runtime.GC()
	}
	runtime.KeepAlive(blocks)
	return nil
}

func call(number int, args ...uintptr) syscall.Errno {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := syscall.RawSyscall6(uintptr(number), a[0], a[1], a[2], a[3], a[4], a[5])
	return errno
}

var file = []byte("/etc/passwd\x00")

// succeeded makes all calls that a worker cannot make. It returns those that were not denied.
func succeeded(parent uintptr) (result []string) {
	if errno := call(unix.SYS_GETPPID); errno != unix.EPERM {
		return []string{"getppid, no filter is in force: " + errno.Error()} // the other calls could do harm
	}
	info, err := arch.GetInfo("")
	if err != nil {
		return []string{err.Error()}
	}
	some := []string{"mmap", "mprotect", "clone", "tgkill", "kill", "sched_getaffinity", "prctl", "arch_prctl"}
	const x32 = 0x40000000
	for number := range 1000 {
		if number == 335 || number == 336 {
			continue // uretprobe and uprobe of x86-64, which the kernel ends with SIGILL before the filter
		}
		name := info.SyscallNumbers[number]
		if slices.Contains(sandbox.WorkerCalls, name) || slices.Contains(some, name) {
			continue
		}
		for _, number := range []int{number, number | x32} {
			if errno := call(number); errno != unix.EPERM && errno != unix.ENOSYS {
				result = append(result, fmt.Sprintf("%s %d: %v", name, number, errno))
			}
		}
	}

	here := ^uintptr(99) // AT_FDCWD
	own := uintptr(os.Getpid())
	page := uintptr(os.Getpagesize())
	text := uintptr(unsafe.Pointer(&file[0]))
	const private = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	const thread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD
	for _, attack := range []struct {
		name string
		call int
		args []uintptr
	}{
		{"open a file", unix.SYS_OPENAT, []uintptr{here, text, unix.O_RDONLY}},
		{"create a file", unix.SYS_OPENAT, []uintptr{here, text, unix.O_CREAT | unix.O_RDWR}},
		{"a socket", unix.SYS_SOCKET, []uintptr{unix.AF_INET, unix.SOCK_STREAM}},
		{"a local socket", unix.SYS_SOCKET, []uintptr{unix.AF_UNIX, unix.SOCK_STREAM}},
		{"a pair of sockets", unix.SYS_SOCKETPAIR, []uintptr{unix.AF_UNIX, unix.SOCK_STREAM, 0, text}},
		{"a program", unix.SYS_EXECVE, []uintptr{text}},
		{"a program of a descriptor", unix.SYS_EXECVEAT, []uintptr{here, text}},
		{"trace the parent", unix.SYS_PTRACE, []uintptr{unix.PTRACE_SEIZE, parent}},
		{"the memory of the parent", unix.SYS_PROCESS_VM_READV, []uintptr{parent}},
		{"signal the parent", unix.SYS_KILL, []uintptr{parent, 0}},
		{"signal its own group", unix.SYS_KILL, []uintptr{0, 0}},
		{"signal all processes", unix.SYS_KILL, []uintptr{^uintptr(0), 0}},
		{"signal itself, with other bits", unix.SYS_KILL, []uintptr{own | 1<<32, 0}},
		{"signal a thread of the parent", unix.SYS_TGKILL, []uintptr{parent, parent, 0}},
		{"signal a thread", unix.SYS_TKILL, []uintptr{parent, 0}},
		{"the owner of a signal", unix.SYS_FCNTL, []uintptr{0, unix.F_SETOWN, parent}},
		{"a process", unix.SYS_CLONE, []uintptr{uintptr(unix.SIGCHLD)}},
		{"a process with the same memory", unix.SYS_CLONE, []uintptr{unix.CLONE_VM | unix.CLONE_VFORK | uintptr(unix.SIGCHLD)}},
		{"a user namespace", unix.SYS_CLONE, []uintptr{unix.CLONE_NEWUSER | uintptr(unix.SIGCHLD)}},
		{"a thread in another network", unix.SYS_CLONE, []uintptr{thread | unix.CLONE_NEWNET}},
		{"clone3", unix.SYS_CLONE3, []uintptr{text, 64}},
		{"executable memory", unix.SYS_MMAP, []uintptr{0, page, unix.PROT_READ | unix.PROT_EXEC, private, ^uintptr(0)}},
		{"executable memory, with other bits", unix.SYS_MMAP, []uintptr{0, page, unix.PROT_EXEC | 1<<32, private, ^uintptr(0)}},
		{"memory that becomes executable", unix.SYS_MPROTECT, []uintptr{text &^ (page - 1), page, unix.PROT_READ | unix.PROT_EXEC}},
		{"memory with a key", unix.SYS_PKEY_MPROTECT, []uintptr{text &^ (page - 1), page, unix.PROT_EXEC, ^uintptr(0)}},
		{"a file in memory", unix.SYS_MEMFD_CREATE, []uintptr{text}},
		{"the processors of the parent", unix.SYS_SCHED_GETAFFINITY, []uintptr{parent, 8, text}},
		{"a tracer", unix.SYS_PRCTL, []uintptr{unix.PR_SET_PTRACER, ^uintptr(0)}},
		{"limits", unix.SYS_PRLIMIT64, []uintptr{0, unix.RLIMIT_NOFILE, text}},
		{"the terminal", unix.SYS_IOCTL, []uintptr{0, unix.TIOCSTI, text}},
	} {
		if errno := call(attack.call, attack.args...); errno != unix.EPERM && errno != unix.ENOSYS {
			result = append(result, attack.name+": "+errno.Error())
		}
	}
	if errno := call(unix.SYS_READ, 3, text, 1); errno != unix.EBADF {
		result = append(result, "read an inherited descriptor: "+errno.Error())
	}
	return result
}

// denySeccomp makes further filters of this process fail.
func denySeccomp(errno uint32) {
	runtime.LockOSThread()
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SECCOMP, Jf: 1},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ERRNO | errno},
		{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	call(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
}

// Calls of other architectures have other numbers: none of them is permitted.
func TestWorkerFilterOfOtherArchitectures(t *testing.T) {
	encoded, err := sandbox.NewWorkerFilter()
	require.NoError(t, err)
	var program []bpf.Instruction
	for at := 0; at < len(encoded); at += unix.SizeofSockFilter {
		program = append(program, bpf.RawInstruction{
			Op: binary.NativeEndian.Uint16(encoded[at:]), Jt: encoded[at+2], Jf: encoded[at+3], K: binary.NativeEndian.Uint32(encoded[at+4:]),
		}.Disassemble())
	}
	filter, err := bpf.NewVM(program)
	require.NoError(t, err)
	own, err := arch.GetInfo("")
	require.NoError(t, err)
	permitted := 0
	for _, other := range []*arch.Info{arch.I386, arch.X86_64, arch.ARM, arch.AARCH64} {
		for number := range 600 {
			call := make([]byte, 64) // struct seccomp_data, in the byte order of the simulated machine
			binary.BigEndian.PutUint32(call, uint32(number))
			binary.BigEndian.PutUint32(call[4:], uint32(other.ID))
			result, err := filter.Run(call)
			require.NoError(t, err)
			if uint32(result) != unix.SECCOMP_RET_ALLOW {
				continue
			}
			require.Equal(t, own.ID, other.ID, "%s %d", other.Name, number)
			permitted++
		}
	}
	require.Greater(t, permitted, 20)
}

// BenchmarkWorker starts processes that end, in turn with and without confining themselves.
func BenchmarkWorker(b *testing.B) {
	took := map[string][]time.Duration{}
	for b.Loop() {
		for _, mode := range []string{"plain", "confined"} {
			cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"test", "worker", "start " + mode, ""}, Env: []string{}, Dir: "/"}
			began := time.Now()
			require.NoError(b, cmd.Run())
			took[mode] = append(took[mode], time.Since(began))
		}
	}
	for mode, all := range took {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2]), mode+"-p50-ns")
	}
}
