package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/internal/sandbox"
)

const pool = `
import multiprocessing as m, os, sys
from multiprocessing import shared_memory
def square(x):
    return x * x
def add(lock, name, n):
    memory = shared_memory.SharedMemory(name=name)
    for _ in range(n):
        with lock:
            memory.buf[0] = (memory.buf[0] + 1) % 256
    memory.close()
if __name__ == "__main__":
    m.set_start_method(sys.argv[1])
    queue = m.Queue()
    queue.put("queue")
    print(queue.get())
    with m.Pool(3) as p:
        print(p.map(square, range(5)))
    lock, memory = m.Lock(), shared_memory.SharedMemory(create=True, size=100_000)
    workers = [m.Process(target=add, args=(lock, memory.name, 50)) for _ in range(4)]
    for w in workers: w.start()
    for w in workers: w.join()
    print(memory.buf[0])
    memory.close()
    memory.unlink()
`

// multiprocessing of Python has semaphores, shared memory and processes that find them by their
// names.
func TestMultiprocessing(t *testing.T) {
	for kernel, simulate := range kernels {
		for _, row := range []struct {
			network sandbox.Network
			method  string
		}{{sandbox.NetworkProxy, "fork"}, {sandbox.NetworkProxy, "spawn"}, {sandbox.NetworkNone, "fork"}, {sandbox.NetworkAll, "fork"}} {
			t.Run(kernel+" "+string(row.network)+" "+row.method, func(t *testing.T) {
				simulate(t)
				var dir string
				s := open(t, func(p *sandbox.Policy) {
					p.Network = row.network
					dir = p.Dir
				})
				require.NoError(t, os.WriteFile(filepath.Join(dir, "pool.py"), []byte(pool), 0o600))
				output, err := bash(t, s, "python3 pool.py "+row.method)
				require.NoError(t, err, output)
				require.Equal(t, "queue\n[0, 1, 4, 9, 16]\n200\n", output)
			})
		}
	}
}

// sharedNames uses names in /dev/shm in any way. It is given one that exists outside.
const sharedNames = `
import os, sys
canary = sys.argv[1]
base = "/dev/shm/" + str(os.getpid())
def attempt(what, *args):
    try:
        result = what(*args)
        print("ok" if result is None or result < 3 else "fd")
        return result
    except OSError as e:
        print(type(e).__name__, e.errno)
NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL
OLD = os.O_RDWR | os.O_NOFOLLOW
fd = attempt(os.open, base, NEW, 0o600)
attempt(os.open, base, NEW, 0o600)
os.write(fd, b"text")
other = attempt(os.open, base, os.O_RDONLY | os.O_NOFOLLOW)
print(os.read(other, 10), os.get_inheritable(other))
attempt(os.write, other, b"x")
attempt(os.link, base, base + "b")
attempt(os.link, base, base + "b")
attempt(os.unlink, base)
attempt(os.unlink, base)
attempt(os.open, base, OLD)
again = attempt(os.open, base + "b", OLD)
print(os.read(again, 10))
attempt(os.unlink, base + "b")
print(os.read(other, 10))
attempt(os.open, base + "/x", NEW, 0o600)
attempt(os.open, "/dev/shm/..", OLD)
attempt(os.open, "/dev/shm/" + 300 * "x", NEW, 0o600)
print("outside")
attempt(os.open, canary, OLD)
attempt(os.open, canary, os.O_RDONLY)
attempt(os.open, "/dev/shm/../shm/" + os.path.basename(canary), OLD)
attempt(os.link, canary, "here")
attempt(os.link, canary, base)
attempt(os.rename, canary, "here")
attempt(os.unlink, "/dev/shm/../shm/" + os.path.basename(canary))
attempt(os.unlink, canary)
print("many")
names = 0
try:
    while names < 2000:
        os.close(os.open(base + "." + str(names), NEW, 0o600))
        names += 1
except OSError as e:
    print(e.errno)
print(os.close(os.open("own", NEW)), os.link("own", "linked"), os.unlink("own"), os.listdir())
`

// Without namespaces, the names of shared memory are those of one command. Names outside do not
// exist.
func TestSharedNames(t *testing.T) {
	sandbox.SimulateKernel(t, -1)
	canary, err := os.CreateTemp("/dev/shm", "agenthost-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.Remove(canary.Name()) })
	_, err = canary.WriteString("canary")
	require.NoError(t, err)
	s := open(t, nil)
	output, err := run(t, s, "/usr/bin/env", "python3", "-c", sharedNames, canary.Name())
	require.NoError(t, err, output)
	require.Equal(t, `fd
FileExistsError 17
fd
b'text' False
OSError 9
ok
FileExistsError 17
ok
FileNotFoundError 2
FileNotFoundError 2
fd
b'text'
ok
b''
FileNotFoundError 2
IsADirectoryError 21
OSError 36
outside
FileNotFoundError 2
PermissionError 13
PermissionError 13
OSError 18
FileNotFoundError 2
OSError 18
PermissionError 13
FileNotFoundError 2
many
28
None None None ['linked']
`, output)
	content, err := os.ReadFile(canary.Name())
	require.NoError(t, err)
	require.Equal(t, "canary", string(content))
	output, err = run(t, s, "/usr/bin/env", "python3", "-c", `import os; os.open("/dev/shm/kept", os.O_RDWR|os.O_CREAT|os.O_EXCL)`)
	require.NoError(t, err, output)
	require.NoFileExists(t, "/dev/shm/kept")
	output, err = run(t, s, "/usr/bin/env", "python3", "-c", `import os; os.open("/dev/shm/kept", os.O_RDWR|os.O_NOFOLLOW)`)
	require.Error(t, err)
	require.Contains(t, output, "FileNotFoundError")
}

// A signal does not interrupt a call that the launcher executes: it would be executed twice.
func TestSharedNamesWithSignals(t *testing.T) {
	sandbox.SimulateKernel(t, -1)
	output, err := run(t, open(t, nil), "/usr/bin/env", "python3", "-c", `
import os, signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False) # the kernel restarts calls
signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
name = "/dev/shm/" + str(os.getpid())
for _ in range(3000):
    os.close(os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    os.link(name, name + "x")
    os.unlink(name)
    os.unlink(name + "x")
signal.setitimer(signal.ITIMER_REAL, 0)
print("works")`)
	require.NoError(t, err, output)
	require.Equal(t, "works\n", output)
}

// Where a program around this one gets notifications, launchers get none: a command has neither
// shared memory nor a connection to the proxy, and works.
func TestWithoutNotifications(t *testing.T) {
	sandbox.SimulateKernel(t, -1)
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	require.NoError(t, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	program := unix.SockFprog{Len: 1, Filter: &allow}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	require.Zero(t, errno)
	defer func() { _ = unix.Close(int(fd)) }()
	for _, network := range []sandbox.Network{sandbox.NetworkProxy, sandbox.NetworkNone} {
		s := open(t, func(p *sandbox.Policy) { p.Network = network })
		var output strings.Builder
		script := `t=$(mktemp) && echo text >$t && ln $t linked && rm $t && cat linked; python3 -c '
import os, socket
for attempt in lambda: socket.socket(), lambda: os.open("/dev/shm/x", os.O_RDWR | os.O_CREAT | os.O_EXCL):
    try: attempt(); print("SUCCEEDED")
    except OSError as e: print(e.errno)'`
		cmd := &exec.Cmd{Path: "/bin/bash", Args: []string{"bash", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Stdout: &output, Stderr: &output}
		c, err := s.Confine(cmd)
		require.NoError(t, err)
		err = cmd.Start()
		c.Started()
		require.NoError(t, err)
		require.NoError(t, cmd.Wait(), output.String())
		require.Equal(t, "text\n97\n13\n", output.String())
	}
}
