package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/internal/child"
	"github.com/seed93082962/agenthost/internal/sandbox"
)

// TestMain runs an attack instead of the tests, if the arguments say so.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "attack" {
		if err := attacks[os.Args[2]](os.Args[3]); err != nil {
			fmt.Println("denied:", err)
			os.Exit(3)
		}
		fmt.Println("SUCCEEDED")
		return
	}
	if len(os.Args) == 4 && os.Args[1] == "worker" {
		actAsWorker(os.Args[2], os.Args[3])
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "attacks" {
		attackAll(os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

// attackAll runs attacks one after the other. Its output are lines with the number of an attack and
// its quoted result.
func attackAll(namesAndArgs []string) {
	for i := 0; i < len(namesAndArgs); i += 2 {
		result := "SUCCEEDED"
		if err := attacks[namesAndArgs[i]](namesAndArgs[i+1]); err != nil {
			result = "denied: " + err.Error()
		}
		fmt.Printf("%d %q\n", i/2, result)
	}
}

// attack is an entry of attacks, with its argument.
type attack struct{ name, arg string }

// results runs attacks in one process of attacker, and returns what they print.
func results(t testing.TB, attacker string, list []attack, run func(args ...string) (string, error)) []string {
	args := []string{attacker, "attacks"}
	for _, a := range list {
		args = append(args, a.name, a.arg)
	}
	output, err := run(args...)
	require.NoError(t, err, output)
	lines := strings.Split(strings.TrimSpace(output), "\n")
	require.Len(t, lines, len(list), output)
	for i, line := range lines {
		require.True(t, strings.HasPrefix(line, strconv.Itoa(i)+" "), output)
	}
	return lines
}

// requireDenied runs attacks in s.
func requireDenied(t *testing.T, s *sandbox.Enforcer, attacker string, list []attack) {
	lines := results(t, attacker, list, func(args ...string) (string, error) { return run(t, s, args...) })
	for i, a := range list {
		t.Run(a.name+" "+a.arg, func(t *testing.T) {
			require.Contains(t, lines[i], "denied:")
			require.NotContains(t, lines[i], "SUCCEEDED")
		})
	}
}

// program is this test's executable at a place that the sandbox makes readable.
func program(t testing.TB) string {
	t.Helper()
	content, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "attack")
	require.NoError(t, os.WriteFile(path, content, 0o755))
	return path
}

func open(t testing.TB, change func(*sandbox.Policy)) *sandbox.Enforcer {
	t.Helper()
	p := sandbox.Policy{Dir: t.TempDir(), Private: t.TempDir(), Path: os.Getenv("PATH"), Home: os.Getenv("HOME")}
	if change != nil {
		change(&p)
	}
	s, err := sandbox.New(p)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// stdin returns a file outside of sandboxes.
func stdin(t testing.TB) string {
	path := filepath.Join(t.TempDir(), "stdin")
	require.NoError(t, os.WriteFile(path, []byte("input"), 0o600))
	return path
}

// run runs a command in s, and returns its output.
func run(t testing.TB, s *sandbox.Enforcer, args ...string) (string, error) {
	t.Helper()
	output, _, err := runCommand(t, s, args...)
	return output, err
}

// runCommand returns, in addition to the output, the connections that were denied.
func runCommand(t testing.TB, s *sandbox.Enforcer, args ...string) (string, []string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var output bytes.Buffer
	input, err := os.Open(stdin(t))
	require.NoError(t, err)
	defer func() { _ = input.Close() }()
	cmd := &exec.Cmd{Path: args[0], Args: args, Env: []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}, Stdin: input, Stdout: &output, Stderr: &output}
	c, err := s.Confine(cmd)
	require.NoError(t, err)
	p, err := child.Start(cmd)
	c.Started()
	require.NoError(t, err)
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		<-p.Done()
	}
	return output.String(), c.Denied(), p.Err()
}

func bash(t testing.TB, s *sandbox.Enforcer, script string) (string, error) {
	return run(t, s, "/bin/bash", "-c", script)
}

// kernels are the real kernel, and a simulated one that cannot create namespaces.
var kernels = map[string]func(t testing.TB){
	"namespaces": func(testing.TB) {},
	"landlock":   func(t testing.TB) { sandbox.SimulateKernel(t, -1) },
}

func TestAttacks(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = tcp.Close() })
	unixPath := filepath.Join(t.TempDir(), "engine.sock")
	engine, err := net.Listen("unix", unixPath)
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	abstract, err := net.Listen("unix", "@agenthost-test-"+strconv.Itoa(os.Getpid()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = abstract.Close() })
	redirect := httptest.NewServer(http.RedirectHandler("http://"+tcp.Addr().String(), http.StatusFound))
	t.Cleanup(redirect.Close)
	inherited, err := os.Open(secret) // a descriptor without close-on-exec, as a parent may leave it
	require.NoError(t, err)
	_, err = syscall.Dup(int(inherited.Fd()))
	require.NoError(t, err)
	pid := strconv.Itoa(os.Getpid())
	attacker := program(t)
	setuid := setuidProgram(t)
	neighbour := startNeighbour(t)
	shared := shareMemory(t)

	list := []attack{
		{"read", secret}, {"read", "/proc/self/root" + secret}, {"read", "../../../../../../../../" + secret}, {"read", "/etc/shadow"},
		{"list", filepath.Dir(secret)}, {"list", "/root/.ssh"}, {"list", "/home"}, {"list", "/var"},
		{"write", filepath.Join(filepath.Dir(secret), "new")}, {"write", "/usr/attack"}, {"write", "/etc/attack"}, {"write", "/attack"},
		{"write", secret}, {"write", "/proc/sys/kernel/core_pattern"}, {"append", "/proc/sys/kernel/core_pattern"}, {"append", "/proc/irq/default_smp_affinity"},
		{"append", secret}, {"append", "/proc/self/oom_score_adj"}, {"append", "/proc/sys/vm/swappiness"}, {"write", "/proc/1/oom_score_adj"},
		{"write through a link", secret}, {"hard link", secret}, {"a race of links", secret}, {"move out", filepath.Join(filepath.Dir(secret), "moved")},
		{"write", "../../../../../../../../" + secret}, {"a race of links for writing", secret}, {"standard input for writing", ""},
		{"files of a descriptor", ""}, {"setuid program", setuid}, {"signal", neighbour},
		{"another descriptor", ""}, {"files of processes", pid}, {"files of the first process", ""}, {"another namespace of this thread", ""},
		{"signal", pid}, {"priority", pid}, {"limit", pid}, {"trace", pid}, {"memory of a process", pid}, {"shared memory", shared},
		{"connect", tcp.Addr().String()}, {"connect", "169.254.169.254:80"}, {"connect", "10.0.0.1:80"}, {"datagram", "8.8.8.8:53"},
		{"socket file", unixPath}, {"socket file", abstract.Addr().String()}, {"socket file", "/var/run/docker.sock"},
		{"raw socket", ""}, {"packet socket", ""}, {"netlink", ""}, {"vsock", ""},
		{"proxy", "http://" + tcp.Addr().String()}, {"proxy", redirect.URL}, {"proxy", "http://localhost/"}, {"proxy", "http://169.254.169.254/"},
		{"proxy tunnel", tcp.Addr().String()}, {"proxy tunnel", "example.com:22"}, {"proxy tunnel", "localhost:443"}, {"proxy tunnel", "[::1]:443"},
		{"user namespace", ""}, {"user namespace of a child", ""}, {"io_uring", ""}, {"bpf", ""}, {"a call of tomorrow", ""}, {"mount", ""}, {"keyring", ""}, {"clock", ""},
		{"capabilities", ""}, {"device", ""}, {"characters of a terminal", ""},
		{"memory", ""}, {"large file", ""}, {"open files", ""},
	}
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			s := open(t, func(p *sandbox.Policy) { p.Read = []string{attacker, setuid} })
			requireDenied(t, s, attacker, list)
			if s.Support().Isolated { // elsewhere a shared file is memory of the command, as one of memfd_create
				requireDenied(t, s, attacker, []attack{{"memory of a file system", ""}})
			}
			content, err := os.ReadFile(secret)
			require.NoError(t, err)
			require.Equal(t, "secret", string(content))
		})
	}
}

// setuidVariable has a program that is executed as root by an ordinary user.
const setuidVariable = "AGENTHOST_TEST_SETUID"

// setuidProgram returns this program, executed as another user than this one.
func setuidProgram(t testing.TB) string {
	if path := os.Getenv(setuidVariable); path != "" {
		return path
	}
	path := program(t)
	require.NoError(t, os.Chown(path, 65534, 65534))
	require.NoError(t, os.Chmod(path, 0o755|os.ModeSetuid))
	return path
}

// shareMemory creates memory that all processes of a user share, and returns its key.
func shareMemory(t testing.TB) string {
	key := os.Getpid()
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	return strconv.Itoa(key)
}

// startNeighbour starts a command of another sandbox, and returns the id of one of its processes.
func startNeighbour(t testing.TB) string {
	s := open(t, nil)
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	cmd := &exec.Cmd{Path: "/bin/bash", Args: []string{"bash", "-c", "echo $$; exec sleep 600"}, Env: []string{}, Stdout: writer}
	c, err := s.Confine(cmd)
	require.NoError(t, err)
	p, err := child.Start(cmd)
	c.Started()
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	t.Cleanup(p.Kill)
	line, err := bufio.NewReader(reader).ReadString('\n')
	require.NoError(t, err)
	if s.Support().Isolated { // the number is that of its namespace
		return strconv.Itoa(p.PID())
	}
	return strings.TrimSpace(line)
}

// raceVariable has the time after which a race of links ends without success.
const raceVariable = "AGENTHOST_TEST_RACE"

func raceTime() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(raceVariable)); err == nil {
		return d
	}
	return 300 * time.Millisecond
}

// What is denied to a confined command works without a sandbox: the attacks are real.
func TestAttacksSucceedWithoutSandbox(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	attacker := program(t)
	list := []attack{
		{"read", secret}, {"list", filepath.Dir(secret)}, {"write", filepath.Join(filepath.Dir(secret), "new")},
		{"write through a link", secret}, {"hard link", secret}, {"a race of links", secret}, {"files of processes", strconv.Itoa(os.Getpid())},
		{"signal", strconv.Itoa(os.Getpid())}, {"priority", strconv.Itoa(os.Getpid())}, {"limit", strconv.Itoa(os.Getpid())}, {"bpf", ""}, {"memory", ""},
		{"setuid program", setuidProgram(t)}, {"signal", startNeighbour(t)}, {"shared memory", shareMemory(t)}, {"memory of a file system", ""},
	}
	lines := results(t, attacker, list, func(args ...string) (string, error) {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), raceVariable+"=1m") // it ends at the first success
		output, err := cmd.CombinedOutput()
		return string(output), err
	})
	for i, a := range list {
		require.Contains(t, lines[i], "SUCCEEDED", a.name)
	}
}

// No process of a command outlives it.
func TestProcessesEndWithTheCommand(t *testing.T) {
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			s := open(t, nil)
			marker := "7" + strconv.Itoa(os.Getpid()) // seconds to sleep: found in /proc
			output, err := bash(t, s, "setsid sleep "+marker+" >/dev/null 2>&1 & (setsid bash -c 'sleep "+marker+" & sleep "+marker+"' >/dev/null 2>&1 &); echo started")
			require.NoError(t, err)
			require.Contains(t, output, "started")
			commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
			require.NoError(t, err)
			for _, file := range commands {
				content, _ := os.ReadFile(file)
				require.NotContains(t, string(content), marker)
			}
		})
	}
}

// A program that protects its memory, as a runtime does, has the same sandboxes. The kernel gives
// the files of its children in /proc to root.
func TestProtectedProgram(t *testing.T) {
	require.NoError(t, unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) })
	for _, network := range []sandbox.Network{sandbox.NetworkAll, sandbox.NetworkNone, sandbox.NetworkProxy} {
		s := open(t, func(p *sandbox.Policy) { p.Network = network })
		require.True(t, s.Support().Isolated, s.Support().Reason)
		output, err := bash(t, s, "id -u")
		require.NoError(t, err, output)
		require.Equal(t, strconv.Itoa(os.Getuid())+"\n", output)
	}
}

func TestKernelWithoutLandlock(t *testing.T) {
	sandbox.SimulateKernel(t, 0)
	s := open(t, nil)
	support := s.Support()
	require.False(t, support.Files)
	require.False(t, support.Network)
	require.False(t, support.Isolated)
	require.Contains(t, support.Reason, "namespaces cannot be created: operation not permitted; the kernel has no Landlock")
}

// sameForAllUsers are tests of tools, proxies and links, which do not depend on the user:
// TestAttacks and TestNested show that its commands are confined. An ordinary user has no build
// cache, and would compile the standard library.
const sameForAllUsers = "TestOrdinaryWork|TestGitClone|TestNPMInstall|TestLinkedDirectories|TestProxy|TestDenied|" +
	"TestWhereGroups|TestGroupsOfAServiceManager|TestUnifiedGroup|TestAddressSpace|TestKernelWithoutLandlock|TestWorkerFilter"

// Root runs the tests as an ordinary user too.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		return // this is the ordinary user
	}
	const nobody = 65534
	temporary, err := os.MkdirTemp("", "agenthost-sandbox-test-") // t.TempDir is below a directory of root
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(temporary) })
	require.NoError(t, os.Chmod(temporary, 0o755))
	content, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	executable := filepath.Join(temporary, "test")
	require.NoError(t, os.WriteFile(executable, content, 0o755))
	home := filepath.Join(temporary, "home")
	require.NoError(t, os.Mkdir(home, 0o700))
	require.NoError(t, os.Chown(home, nobody, nobody))
	join := delegate(t, nobody)
	cmd := exec.Command("/bin/bash", "-c", join+`exec setpriv --reuid 65534 --regid 65534 --clear-groups "$0" -test.skip="$1"`, executable, sameForAllUsers)
	cmd.Dir = home
	setuid := filepath.Join(temporary, "setuid")
	require.NoError(t, os.WriteFile(setuid, content, 0o755))
	require.NoError(t, os.Chmod(setuid, 0o755|os.ModeSetuid))
	cmd.Env = []string{"PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "TMPDIR=" + home, setuidVariable + "=" + setuid}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
}
