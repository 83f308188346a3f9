package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/internal/child"
	"github.com/seed93082962/agenthost/runtime/sandbox"
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
	os.Exit(m.Run())
}

// program is this test's executable at a place that the sandbox makes readable.
func program(t testing.TB) string {
	t.Helper()
	content, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "attack")
	require.NoError(t, os.WriteFile(path, content, 0o755)) //nolint:gosec // it is executed
	return path
}

func open(t testing.TB, change func(*sandbox.Policy)) *sandbox.Sandbox {
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

// run runs a command in s, and returns its output.
func run(t testing.TB, s *sandbox.Sandbox, args ...string) (string, error) {
	t.Helper()
	output, _, err := runCommand(t, s, args...)
	return output, err
}

// runCommand returns, in addition to the output, the connections that were denied.
func runCommand(t testing.TB, s *sandbox.Sandbox, args ...string) (string, []string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var output bytes.Buffer
	cmd := &exec.Cmd{Path: args[0], Args: args, Env: []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}, Stdout: &output, Stderr: &output}
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

func bash(t testing.TB, s *sandbox.Sandbox, script string) (string, error) {
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

	for _, attack := range []struct{ name, arg string }{
		{"read", secret}, {"read", "/proc/self/root" + secret}, {"read", "../../../../../../../../" + secret}, {"read", "/etc/shadow"},
		{"list", filepath.Dir(secret)}, {"list", "/root/.ssh"}, {"list", "/home"}, {"list", "/var"},
		{"write", filepath.Join(filepath.Dir(secret), "new")}, {"write", "/usr/attack"}, {"write", "/etc/attack"}, {"write", "/attack"},
		{"write", secret}, {"write", "/proc/sys/kernel/core_pattern"}, {"append", "/proc/sys/kernel/core_pattern"}, {"append", "/proc/irq/default_smp_affinity"},
		{"append", secret}, {"append", "/proc/self/oom_score_adj"}, {"append", "/proc/sys/vm/swappiness"}, {"write", "/proc/1/oom_score_adj"},
		{"write through a link", secret}, {"hard link", secret}, {"a race of links", secret}, {"move out", filepath.Join(filepath.Dir(secret), "moved")},
		{"another descriptor", ""}, {"files of processes", pid}, {"files of the first process", ""},
		{"signal", pid}, {"priority", pid}, {"limit", pid}, {"trace", pid}, {"memory of a process", pid},
		{"connect", tcp.Addr().String()}, {"connect", "169.254.169.254:80"}, {"connect", "10.0.0.1:80"}, {"datagram", "8.8.8.8:53"},
		{"socket file", unixPath}, {"socket file", abstract.Addr().String()}, {"socket file", "/var/run/docker.sock"},
		{"raw socket", ""}, {"packet socket", ""}, {"netlink", ""}, {"vsock", ""},
		{"proxy", "http://" + tcp.Addr().String()}, {"proxy", redirect.URL}, {"proxy", "http://localhost/"}, {"proxy", "http://169.254.169.254/"},
		{"proxy tunnel", tcp.Addr().String()}, {"proxy tunnel", "example.com:22"}, {"proxy tunnel", "localhost:443"}, {"proxy tunnel", "[::1]:443"},
		{"user namespace", ""}, {"user namespace of a child", ""}, {"io_uring", ""}, {"bpf", ""}, {"a call of tomorrow", ""}, {"mount", ""}, {"keyring", ""}, {"clock", ""},
		{"capabilities", ""}, {"device", ""}, {"characters of a terminal", ""},
		{"memory", ""}, {"large file", ""}, {"open files", ""},
	} {
		for kernel, simulate := range kernels {
			t.Run(kernel+"/"+attack.name+" "+attack.arg, func(t *testing.T) {
				simulate(t)
				s := open(t, func(p *sandbox.Policy) { p.Read = []string{attacker} })
				output, err := run(t, s, attacker, "attack", attack.name, attack.arg)
				require.Contains(t, output, "denied:", "%v", err)
				require.NotContains(t, output, "SUCCEEDED")
			})
		}
	}
}

// What is denied to a confined command works without a sandbox: the attacks are real.
func TestAttacksSucceedWithoutSandbox(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	attacker := program(t)
	for _, attack := range []struct{ name, arg string }{
		{"read", secret}, {"list", filepath.Dir(secret)}, {"write", filepath.Join(filepath.Dir(secret), "new")},
		{"write through a link", secret}, {"hard link", secret}, {"a race of links", secret}, {"files of processes", strconv.Itoa(os.Getpid())},
		{"signal", strconv.Itoa(os.Getpid())}, {"priority", strconv.Itoa(os.Getpid())}, {"limit", strconv.Itoa(os.Getpid())}, {"bpf", ""}, {"memory", ""},
	} {
		cmd := exec.Command(attacker, "attack", attack.name, attack.arg) //nolint:gosec // this program
		cmd.Dir = t.TempDir()
		output, _ := cmd.CombinedOutput()
		require.Contains(t, string(output), "SUCCEEDED", attack.name)
	}
}

// A confined command can do what agents do.
func TestOrdinaryWork(t *testing.T) {
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			cache := goCache(t)
			s := open(t, func(p *sandbox.Policy) { p.Write = []string{cache} })
			for script, want := range map[string]string{
				"echo a | tr a b":                       "b",
				"cat <<E\nhere\nE":                      "here",
				"cat <(echo substituted)":               "substituted",
				"cat <<< string":                        "string",
				"sleep 100 & kill %1; wait; echo ended": "ended",
				"echo x > $TMPDIR/f && cat $TMPDIR/f":   "x",
				"mkdir -p d/e && mv d/e d/f && ls d":    "f",
				"touch ~/.file && ls -a ~":              ".file",
				"python3 -c 'print(40 + 2)'":            "42",
				"git init -q . && git config user.email a@b && git config user.name a && git commit -q --allow-empty -m first && git log --format=%s":                                             "first",
				"printf 'package main\nfunc main() { println(7) }\n' > main.go && go mod init x 2> /dev/null; CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOCACHE=" + cache + " go build -o x . && ./x": "7",
				"printf 'int main(){return 9;}' > m.c && gcc m.c -o m && ./m; echo $?":                                                                                                            "9",
				"node -e 'console.log(6)'":                  "6",
				"trap 'echo trapped' TERM; kill $$; exit 0": "trapped",
				"exit 3":                      "",
				"ulimit -c; ulimit -n":        "0\n4096",
				"echo out; echo err >&2":      "out\nerr",
				"head -c 3 /dev/zero | wc -c": "3",
			} {
				output, err := bash(t, s, script)
				require.Contains(t, output, want, "%s: %v", script, err)
			}
			_, err := bash(t, s, "exit 3")
			require.ErrorContains(t, err, "exit status 3")
			_, err = bash(t, s, "kill -9 $$")
			require.ErrorContains(t, err, "exit status 137")
		})
	}
}

// goCache returns the build cache of Go of the user: without it, the standard library is compiled.
func goCache(t *testing.T) string {
	t.Helper()
	output, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	cache := strings.TrimSpace(string(output))
	require.NoError(t, os.MkdirAll(cache, 0o700))
	return cache
}

// The own loopback interface works where there is a namespace.
func TestServersOfACommandArePrivate(t *testing.T) {
	attacker := program(t)
	s := open(t, func(p *sandbox.Policy) { p.Read = []string{attacker} })
	output, err := run(t, s, attacker, "attack", "own server", "")
	require.NoError(t, err)
	require.Equal(t, "SUCCEEDED\n", output)
}

func TestProxy(t *testing.T) {
	sandbox.AllowAddresses(t, netip.Addr.IsLoopback)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	secure := httptest.NewTLSServer(server.Config.Handler)
	t.Cleanup(secure.Close)
	port := func(url string) string { return url[strings.LastIndex(url, ":")+1:] }
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			s := open(t, func(p *sandbox.Policy) {
				p.Domains = []string{"localhost:" + port(server.URL), "127.0.0.1:" + port(secure.URL)}
			})
			output, err := bash(t, s, "NO_PROXY= no_proxy= curl -sS http://localhost:"+port(server.URL)+"/plain")
			require.NoError(t, err, output)
			require.Equal(t, "GET /plain", output)
			output, err = bash(t, s, "NO_PROXY= no_proxy= curl -sSk "+secure.URL+"/tunnel")
			require.NoError(t, err, output)
			require.Equal(t, "GET /tunnel", output)
			output, err = bash(t, s, "curl -sS http://example.com/")
			require.NoError(t, err, output)
			require.Equal(t, "the sandbox denied a connection to example.com:80: add example.com to sandbox.domains\n", output)
		})
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

// A program that protects its memory, as a runtime does, has the same sandboxes. The kernel gives the
// files of its children in /proc to root.
func TestProtectedProgram(t *testing.T) {
	require.NoError(t, unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) })
	for _, network := range []sandbox.Network{sandbox.NetworkAll, sandbox.NetworkNone, sandbox.NetworkProxy} {
		s := open(t, func(p *sandbox.Policy) { p.Network = network })
		require.Equal(t, sandbox.Support{Files: true, Network: true, Isolated: true}, s.Support())
		output, err := bash(t, s, "id -u")
		require.NoError(t, err, output)
		require.Equal(t, strconv.Itoa(os.Getuid())+"\n", output)
	}
}

func TestKernelWithoutLandlock(t *testing.T) {
	sandbox.SimulateKernel(t, 0)
	s := open(t, nil)
	require.Equal(t, sandbox.Support{Reason: "namespaces cannot be created: operation not permitted; the kernel has no Landlock"}, s.Support())
}

// BenchmarkStart measures the median of the time of `bash -c :`, plain and confined by turns, in a
// program whose memory is as large as that of a runtime.
func BenchmarkStart(b *testing.B) {
	memory := bytes.Repeat([]byte("x"), 128<<20)
	isolated := open(b, nil)
	sandbox.SimulateKernel(b, -1)
	landlock := open(b, nil)
	took := map[string][]float64{}
	for b.Loop() {
		for name, s := range map[string]*sandbox.Sandbox{"plain": nil, "isolated": isolated, "landlock": landlock} {
			cmd := &exec.Cmd{Path: "/bin/bash", Args: []string{"bash", "-c", ":"}, Env: []string{}}
			start := time.Now()
			started := func() {}
			if s != nil {
				c, err := s.Confine(cmd)
				require.NoError(b, err)
				started = c.Started
			}
			p, err := child.Start(cmd)
			started()
			require.NoError(b, err)
			<-p.Done()
			took[name] = append(took[name], float64(time.Since(start).Microseconds())/1000)
			require.NoError(b, p.Err())
		}
	}
	for name, times := range took {
		slices.Sort(times)
		b.ReportMetric(times[len(times)/2], name+"-ms")
	}
	runtime.KeepAlive(memory)
}

// Root runs all tests as an ordinary user too.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		return // this is the ordinary user
	}
	const nobody = 65534
	temporary, err := os.MkdirTemp("", "agenthost-sandbox-test-") // t.TempDir is below a directory of root
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(temporary) })
	require.NoError(t, os.Chmod(temporary, 0o755)) //nolint:gosec // it is entered by another user
	content, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	executable := filepath.Join(temporary, "test")
	require.NoError(t, os.WriteFile(executable, content, 0o755)) //nolint:gosec // it is executed
	home := filepath.Join(temporary, "home")
	require.NoError(t, os.Mkdir(home, 0o700))
	require.NoError(t, os.Chown(home, nobody, nobody))
	// The user has no build cache, and would compile the standard library.
	cmd := exec.Command(executable, "-test.count=1", "-test.skip=TestOrdinaryWork") //nolint:gosec // this program
	cmd.Dir = home
	cmd.Env = []string{"PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "TMPDIR=" + home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// The caller of a command, and no other, learns which connections were denied, and what permits
// them.
func TestDenied(t *testing.T) {
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			s := open(t, nil)
			_, denied, err := runCommand(t, s, "/bin/bash", "-c", `
				curl -s https://example.com:8443/ https://[fd00::1]/ https://169.254.169.254/ http://localhost/ http://a_b:81/
				curl -s https://example.com:8443/; true`)
			require.NoError(t, err)
			require.Equal(t, []string{
				"the sandbox denied a connection to example.com:8443: add example.com:8443 to sandbox.domains",
				`the sandbox denied a connection to "[fd00::1]:443": its address is private or reserved, which sandbox.domains cannot permit`,
				`the sandbox denied a connection to "169.254.169.254:443": its address is private or reserved, which sandbox.domains cannot permit`,
				`the sandbox denied a connection to "a_b:81", which sandbox.domains cannot permit`,
			}, denied)
			_, denied, err = runCommand(t, s, "/bin/bash", "-c", "for i in {1..30}; do curl -s http://example.com:$i/; done; true")
			require.NoError(t, err)
			require.Len(t, denied, 20)
			require.Contains(t, denied[0], "example.com:1 ")
			_, denied, err = runCommand(t, s, "/bin/true")
			require.NoError(t, err)
			require.Empty(t, denied)
		})
	}
}
