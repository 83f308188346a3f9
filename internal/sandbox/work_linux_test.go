package sandbox_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/internal/child"
	"github.com/seed93082962/agenthost/internal/sandbox"
)

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
				"git init -q . && git config user.email a@b && git config user.name a && git commit -q --allow-empty -m first && git log --format=%s":                                                                         "first",
				"printf 'package main\nfunc main() { println(7) }\n' > main.go && go mod init x 2> /dev/null; CGO_ENABLED=0 GOFLAGS='-buildvcs=false -gcflags=all=-dwarf=false' GOCACHE=" + cache + " go build -o x . && ./x": "7",
				"printf 'int main(){return 9;}' > m.c && gcc m.c -o m && ./m; echo $?":                                                                                                                                        "9",
				"node -e 'console.log(6)'":                  "6",
				"trap 'echo trapped' TERM; kill $$; exit 0": "trapped",
				"exit 3":    "",
				"ulimit -n": "4096",
				"prlimit --core -o SOFT,HARD --noheadings --raw": "1 1",
				"echo out; echo err >&2":                         "out\nerr",
				"head -c 3 /dev/zero | wc -c":                    "3",
			} {
				output, err := bash(t, s, script)
				require.Contains(t, output, want, "%s: %v", script, err)
			}
			_, err := bash(t, s, "exit 3")
			require.ErrorContains(t, err, "exit status 3")
			_, err = bash(t, s, "kill -9 $$")
			require.ErrorContains(t, err, "signal: killed")
		})
	}
}

// The working directory and the private one can be reached through links, also through links of
// their parents.
func TestLinkedDirectories(t *testing.T) {
	elsewhere, err := os.MkdirTemp("/var/tmp", "agenthost-sandbox-test-") // not below /tmp, which commands have of their own
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(elsewhere) })
	for kernel, simulate := range kernels {
		for _, place := range []string{t.TempDir(), elsewhere} {
			simulate(t)
			links := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Join(place, "parent", "dir", "sub"), 0o700))
			require.NoError(t, os.Symlink(filepath.Join(place, "parent"), filepath.Join(links, "parent")))
			require.NoError(t, os.Symlink(filepath.Join(links, "parent", "dir"), filepath.Join(links, "dir")))
			for _, dir := range []string{filepath.Join(links, "dir"), filepath.Join(links, "parent", "dir")} {
				for i, private := range []string{t.TempDir(), filepath.Join(links, "parent", "private"), filepath.Join(place, "parent", "private")} {
					var read []string
					if i == 2 {
						read = []string{filepath.Join(links, "parent"), filepath.Join(links, "parent", "dir", "sub")}
					}
					t.Run(kernel+dir, func(t *testing.T) {
						s := open(t, func(p *sandbox.Policy) { p.Dir, p.Private, p.Read = dir, private, read })
						for range 2 {
							output, err := bash(t, s, "pwd && echo a > file && cat "+dir+"/file && cd "+dir+"/sub && echo b > ../file && cat file ../file; touch ~/x $TMPDIR/x && echo c")
							require.NoError(t, err, output)
							require.Contains(t, output, "/parent/dir\na\n")
							require.Contains(t, output, "b\nc\n")
						}
						cmd := &exec.Cmd{Path: "/bin/bash", Args: []string{"bash", "-c", "pwd"}, Dir: filepath.Join(dir, "sub"), Env: []string{"PWD=" + dir + "/sub"}}
						c, err := s.Confine(cmd)
						require.NoError(t, err)
						output, err := cmd.Output()
						c.Started()
						require.NoError(t, err)
						require.Equal(t, dir+"/sub\n", string(output))
					})
				}
			}
		}
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

// BenchmarkStart measures the median and the 10th percentile of the time of `bash -c :`, and the
// CPU time of all its processes and of this one, plain and confined alternately, in a program whose
// memory is as large as that of a runtime. Other programs change the percentile least.
func BenchmarkStart(b *testing.B) {
	memory := bytes.Repeat([]byte("x"), 128<<20)
	limited := open(b, nil)
	sandbox.SimulateNoGroups(b)
	isolated := open(b, nil)
	sandbox.SimulateKernel(b, -1)
	landlock := open(b, nil)
	took, cpu := map[string][]float64{}, map[string]float64{}
	for b.Loop() {
		for name, s := range map[string]*sandbox.Enforcer{"plain": nil, "isolated": isolated, "isolated-group": limited, "landlock": landlock} {
			cmd := &exec.Cmd{Path: "/bin/bash", Args: []string{"bash", "-c", ":"}, Env: []string{}}
			start, used := time.Now(), cpuTime(b)
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
			cpu[name] += (cpuTime(b) - used).Seconds() * 1000
			require.NoError(b, p.Err())
		}
	}
	for name, times := range took {
		slices.Sort(times)
		b.ReportMetric(times[len(times)/2], name+"-ms")
		b.ReportMetric(times[len(times)/10], name+"-p10-ms")
		b.ReportMetric(cpu[name]/float64(len(times)), name+"-cpu-ms")
	}
	runtime.KeepAlive(memory)
}

// cpuTime returns the CPU time of this process and of the descendants that have been waited for.
func cpuTime(b *testing.B) time.Duration {
	var sum int64
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		require.NoError(b, unix.Getrusage(who, &usage))
		sum += usage.Utime.Nano() + usage.Stime.Nano()
	}
	return time.Duration(sum)
}

// The caller of a command, and no other, learns which connections were denied, and what permits
// them.
func TestDenied(t *testing.T) {
	for kernel, simulate := range kernels {
		t.Run(kernel, func(t *testing.T) {
			simulate(t)
			s := open(t, nil)
			_, denied, err := runCommand(t, s, "/bin/bash", "-c", `
				curl -s https://example.com:8443/ https://[fd00::1]/ https://169.254.169.254/ http://localhost/ http://a_b:81/ http://10.0.0.1:8080/
				curl -s https://example.com:8443/; true`)
			require.NoError(t, err)
			require.Equal(t, []string{
				"the sandbox denied a connection to example.com:8443: add example.com:8443 to sandbox.domains",
				`the sandbox denied a connection to "[fd00::1]:443": its address is private or reserved, which sandbox.domains cannot permit`,
				`the sandbox denied a connection to "169.254.169.254:443": its address is private or reserved, which sandbox.domains cannot permit`,
				`the sandbox denied a connection to "a_b:81", which sandbox.domains cannot permit`,
				`the sandbox denied a connection to "10.0.0.1:8080": its address is private or reserved, which sandbox.domains cannot permit`,
			}, denied)
			_, denied, err = runCommand(t, s, "/bin/bash", "-c", "curl -s http://example.com:{1..30}/; true")
			require.NoError(t, err)
			require.Len(t, denied, 20)
			require.Contains(t, denied[0], "example.com:1 ")
			_, denied, err = runCommand(t, s, "/bin/true")
			require.NoError(t, err)
			require.Empty(t, denied)
		})
	}
}
