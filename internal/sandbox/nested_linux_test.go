package sandbox_test

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/child"
	"github.com/seed93082962/agenthost/internal/sandbox"
)

// users are those of nested commands: this one, and another one if this is root.
func users() []int {
	if os.Getuid() != 0 {
		return []int{0}
	}
	return []int{0, 1900000000}
}

func nested(t testing.TB, user int, attacker string) (s *sandbox.Enforcer, temporary string) {
	s = open(t, func(p *sandbox.Policy) {
		temporary = filepath.Join(p.Private, "tmp")
		p.Nested, p.User, p.Network, p.Read = true, user, sandbox.NetworkAll, []string{attacker, "/bin/sh"} // a link below a link
		if user != 0 {
			require.NoError(t, os.Chown(p.Dir, user, user))
		}
	})
	return s, temporary
}

// A nested command confines commands itself, and has extra files.
func TestNested(t *testing.T) {
	attacker := program(t)
	for kernel, simulate := range kernels {
		for _, user := range users() {
			t.Run(fmt.Sprint(kernel, user), func(t *testing.T) {
				simulate(t)
				if kernel == "landlock" && user != 0 {
					return // the directories of the test are below one of root
				}
				s, temporary := nested(t, user, attacker)
				require.Equal(t, kernel == "namespaces", s.Support().Isolated)
				extra, err := os.CreateTemp(t.TempDir(), "")
				require.NoError(t, err)
				_, err = extra.WriteString("of the extra file")
				require.NoError(t, err)
				var output bytes.Buffer
				cmd := &exec.Cmd{Path: attacker, Args: []string{attacker, "attack", "nested", ""}, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/kept", "TMPDIR=" + temporary}, Stdout: &output, Stderr: &output, ExtraFiles: []*os.File{extra}}
				c, err := s.Confine(cmd)
				require.NoError(t, err)
				p, err := child.Start(cmd)
				c.Started()
				require.NoError(t, err)
				<-p.Done()
				require.NoError(t, p.Err(), output.String())
				isolated := kernel == "namespaces" && (user != 0 || os.Getuid() != 0)
				uid := cmp.Or(user, os.Getuid())
				require.Equal(t, fmt.Sprintf("of the extra file /kept isolated=%v\nuser %d, written, denied\nSUCCEEDED\n", isolated, uid), output.String())
			})
		}
	}
}

// What a nested command may do in addition reaches nothing outside.
func TestAttacksOfANestedCommand(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o644))
	unixPath := filepath.Join(t.TempDir(), "engine.sock")
	engine, err := net.Listen("unix", unixPath)
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	abstract, err := net.Listen("unix", "@agenthost-nested-"+strconv.Itoa(os.Getpid()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = abstract.Close() })
	pid := strconv.Itoa(os.Getpid())
	attacker := program(t)
	list := []attack{
		{"read", secret}, {"read", "/proc/self/root" + secret}, {"read", "../../../../../../../../" + secret}, {"read", "/etc/shadow"},
		{"list", filepath.Dir(secret)}, {"list", "/root/.ssh"}, {"list", "/home"}, {"list", "/var"},
		{"write", filepath.Join(filepath.Dir(secret), "new")}, {"write", "/usr/attack"}, {"write", "/etc/attack"}, {"write", "/attack"}, {"write", secret},
		{"write", "/proc/sys/kernel/core_pattern"}, {"write", "/proc/sys/kernel/modprobe"}, {"write", "/proc/sysrq-trigger"},
		{"write", attacker}, {"files of processes", pid}, {"files of the first process", ""}, {"another descriptor", ""},
		{"write through a link", secret}, {"hard link", secret}, {"a race of links", secret},
		{"signal", pid}, {"priority", pid}, {"limit", pid}, {"trace", pid}, {"memory of a process", pid},
		{"socket file", unixPath}, {"socket file", abstract.Addr().String()}, {"socket file", "/var/run/docker.sock"},
		{"raw socket", ""}, {"packet socket", ""}, {"netlink", ""}, {"vsock", ""},
		{"io_uring", ""}, {"bpf", ""}, {"mount", ""}, {"keyring", ""}, {"clock", ""}, {"capabilities", ""}, {"device", ""},
		{"mounts of a namespace", secret}, {"another namespace of this thread", ""},
	}
	for kernel, simulate := range kernels {
		for _, user := range users() {
			if kernel == "landlock" && user != 0 {
				continue // the directories of the test are below one of root
			}
			t.Run(fmt.Sprint(kernel, user), func(t *testing.T) {
				simulate(t)
				s, _ := nested(t, user, attacker)
				requireDenied(t, s, attacker, list)
			})
		}
	}
}

// Without Landlock, namespaces still confine, except for abstract sockets in the network of the
// system. Support says so.
func TestNamespacesWithoutLandlock(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	attacker := program(t)
	pid := strconv.Itoa(os.Getpid())
	sandbox.SimulateNoLandlock(t)
	for _, network := range []sandbox.Network{sandbox.NetworkNone, sandbox.NetworkProxy, sandbox.NetworkAll} {
		t.Run(string(network), func(t *testing.T) {
			s := open(t, func(p *sandbox.Policy) { p.Read, p.Network = []string{attacker}, network })
			require.True(t, s.Support().Isolated)
			if network == sandbox.NetworkAll {
				require.Contains(t, s.Support().Reason, "abstract sockets")
			}
			requireDenied(t, s, attacker, []attack{
				{"read", secret}, {"read", "/proc/self/root" + secret}, {"list", "/root/.ssh"}, {"list", "/home"}, {"read", "/etc/shadow"},
				{"write", "/usr/attack"}, {"write", "/etc/attack"}, {"write", "/attack"}, {"write", secret}, {"append", "/proc/sys/kernel/core_pattern"},
				{"files of a descriptor", ""}, {"another descriptor", ""}, {"files of processes", pid}, {"files of the first process", ""},
				{"write through a link", secret}, {"hard link", secret}, {"signal", pid}, {"priority", pid}, {"limit", pid}, {"trace", pid},
				{"socket file", "/var/run/docker.sock"}, {"mount", ""}, {"user namespace of a child", ""}, {"io_uring", ""}, {"device", ""},
			})
		})
	}
}

// A nested command ends with its launcher, whatever the user is.
func TestNestedCommandEndsWithItsLauncher(t *testing.T) {
	for _, user := range users() {
		s, _ := nested(t, user, "/bin/sh")
		seconds := fmt.Sprintf("8%d%d", user%10, os.Getpid())
		cmd := startNested(t, s, "sleep "+seconds+"; :")
		require.Eventually(t, func() bool { return sleeping(t, seconds) }, time.Minute, 20*time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		require.Eventually(t, func() bool { return !sleeping(t, seconds) }, time.Minute, 20*time.Millisecond)
	}
}

// A nested command leaves no process if it kills its launcher.
func TestNestedCommandKillsItsLauncher(t *testing.T) {
	for name, simulate := range kernels {
		t.Run(name, func(t *testing.T) {
			simulate(t)
			for _, user := range users() {
				s, _ := nested(t, user, "/bin/sh")
				seconds := fmt.Sprintf("9%d%d", user%10, os.Getpid())
				cmd := startNested(t, s, "setsid sleep "+seconds+" & sleep 0.1; kill -9 $PPID; :")
				_ = cmd.Wait() // the first process of a namespace cannot be killed
				require.False(t, sleeping(t, seconds))
			}
		})
	}
}

func startNested(t *testing.T, s *sandbox.Enforcer, script string) *exec.Cmd {
	t.Helper()
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
	c, err := s.Confine(cmd)
	require.NoError(t, err)
	err = cmd.Start()
	c.Started()
	require.NoError(t, err)
	return cmd
}

// sleeping reports whether there is a process of sleep with this argument.
func sleeping(t *testing.T, seconds string) bool {
	t.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	return slices.ContainsFunc(commands, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && string(text) == "sleep\x00"+seconds+"\x00"
	})
}
