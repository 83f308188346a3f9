package sandbox_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed93082962/agenthost/internal/sandbox"
)

// delegate returns the commands of a shell with which it becomes a member of groups that belong to
// a user, where there can be any.
func delegate(t *testing.T, user int) (script string) {
	for _, dir := range sandbox.FindGroups() {
		dir, err := os.MkdirTemp(dir, "agenthost-delegated-")
		require.NoError(t, err)
		t.Cleanup(func() {
			require.Eventually(t, func() bool { return os.Remove(dir) == nil }, time.Minute, 10*time.Millisecond)
		})
		require.NoError(t, os.Chown(dir, user, user))
		require.NoError(t, os.Chown(filepath.Join(dir, "cgroup.procs"), user, user))
		script += "echo $$ > " + dir + "/cgroup.procs && "
	}
	return script
}

// groups returns the control groups of this program's commands.
func groups(t testing.TB) (result []string) {
	for _, dir := range sandbox.FindGroups() {
		found, err := filepath.Glob(filepath.Join(dir, "agenthost-sandbox-"+strconv.Itoa(os.Getpid())+"-*"))
		require.NoError(t, err)
		result = append(result, found...)
	}
	return result
}

// limits are those with and without control groups.
var limits = map[string]func(t testing.TB){
	"groups":    func(testing.TB) {},
	"no groups": func(t testing.TB) { sandbox.SimulateNoGroups(t) },
}

// A command cannot use all memory: the command ends, not this program.
func TestMemoryIsLimited(t *testing.T) {
	attacker := program(t)
	for kernel, simulate := range kernels {
		for name, limit := range limits {
			t.Run(kernel+"/"+name, func(t *testing.T) {
				simulate(t)
				limit(t)
				address := uint64(0)
				s := open(t, nil)
				if !s.Support().Memory {
					address = 1 << 30 // the Go runtime of the attacker needs some hundred MiB
				}
				s = open(t, func(p *sandbox.Policy) {
					p.Read = []string{attacker}
					p.Limits = sandbox.Limits{Memory: 100 << 20, AddressSpace: address}
				})
				output, err := run(t, s, attacker, "attack", "all memory", "")
				if address == 0 {
					require.ErrorContains(t, err, "signal: killed", output)
					require.NotContains(t, output, "SUCCEEDED")
				}
				output, err = bash(t, s, "echo works")
				require.NoError(t, err, output)
				require.Equal(t, "works\n", output)
			})
		}
	}
}

// A command cannot use all processes, and leaves none.
func TestProcessesAreLimited(t *testing.T) {
	attacker := program(t)
	for kernel, simulate := range kernels {
		for name, limit := range limits {
			t.Run(kernel+"/"+name, func(t *testing.T) {
				simulate(t)
				limit(t)
				s := open(t, func(p *sandbox.Policy) {
					p.Read = []string{attacker}
					p.Limits = sandbox.Limits{Processes: 200}
				})
				if !s.Support().Processes {
					require.Contains(t, s.Support().Reason, "the processes of root are not limited")
					return
				}
				output, err := run(t, s, attacker, "attack", "all processes", "")
				require.Contains(t, output, "denied:", err)
				_, err = bash(t, s, "bomb() { bomb | bomb & }; bomb 2> /dev/null; for i in {1..20000}; do :; done; exit 7")
				require.Error(t, err)
				output, err = bash(t, s, "echo works")
				require.NoError(t, err, output)
				require.Equal(t, "works\n", output)
			})
		}
	}
}

// The group of a command is removed when the command ends, or later if a sandbox was closed before.
func TestGroupsAreRemoved(t *testing.T) {
	s := open(t, nil)
	output, err := bash(t, s, "true")
	require.NoError(t, err, output)
	require.Eventually(t, func() bool { return len(groups(t)) == 0 }, time.Minute, 10*time.Millisecond)

	for _, dir := range sandbox.FindGroups() { // as a program leaves them that is killed
		left := filepath.Join(dir, "agenthost-sandbox-999999999-1")
		require.NoError(t, os.Mkdir(left, 0o700))
		sandbox.FindGroups()
		require.DirExists(t, left, "a launcher may be about to join it")
		hour := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(left, hour, hour))
		sandbox.FindGroups()
		require.NoDirExists(t, left)
	}
}

// Groups that a former process with the same id has left do not prevent new ones.
func TestNamesOfGroupsAreFree(t *testing.T) {
	const left = 50
	for _, dir := range sandbox.FindGroups() {
		for i := range left {
			dir := filepath.Join(dir, sandbox.NextGroup(uint64(i)))
			require.NoError(t, os.Mkdir(dir, 0o700))
			t.Cleanup(func() { require.NoError(t, os.Remove(dir)) })
		}
		require.Contains(t, sandbox.FindGroups(), dir)
		output, err := bash(t, open(t, nil), "true")
		require.NoError(t, err, output)
	}
}

// A command is a member of its group of version 2 from its start.
func TestUnifiedGroup(t *testing.T) {
	for _, dir := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err != nil || os.Getuid() != 0 {
			continue
		}
		for kernel, simulate := range kernels {
			t.Run(kernel, func(t *testing.T) {
				simulate(t)
				sandbox.UseUnifiedGroup(t, dir)
				s := open(t, nil)
				output, err := bash(t, s, "grep ^0: /proc/$$/cgroup /proc/self/cgroup; sleep 600 & exit 3")
				require.ErrorContains(t, err, "3", output)
				if kernel == "namespaces" {
					require.Contains(t, output, "0::/agenthost-sandbox-"+strconv.Itoa(os.Getpid()))
				}
				require.Eventually(t, func() bool {
					left, _ := filepath.Glob(filepath.Join(dir, "agenthost-sandbox-"+strconv.Itoa(os.Getpid())+"-*"))
					return len(left) == 0
				}, time.Minute, 10*time.Millisecond)
			})
		}
	}
}

func TestWhereGroupsAreCreated(t *testing.T) {
	for _, test := range []struct {
		name, mounts, own string
		want              []string
	}{
		{
			"a service with a delegated group", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate",
			"0::/system.slice/runtime.service/main\n",
			[]string{"/sys/fs/cgroup/system.slice/runtime.service/main", "/sys/fs/cgroup/system.slice/runtime.service"},
		},
		{"a container", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw", "0::/\n", []string{"/sys/fs/cgroup"}},
		{
			"a bind mount", "30 23 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw", "0::/docker/1/main\n",
			[]string{"/sys/fs/cgroup/main", "/sys/fs/cgroup"},
		},
		{"a mount of another group", "30 23 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw", "0::/docker/2\n", nil},
		{
			"version 1", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n",
			"8:pids:/\n4:memory:/a\n0::/\n", []string{"/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/pids"},
		},
		{"no mount", "", "0::/\n", nil},
		{"a short line", "30 23 0:26 / \n- \n", "0\n:\n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, sandbox.ParseGroups(test.mounts, test.own))
		})
	}
}

// Groups next to that of a service are created only where the service manager permits it: the
// restrictions of the service would not hold for a command.
func TestGroupsOfAServiceManager(t *testing.T) {
	slice, err := os.MkdirTemp("/var/tmp", "agenthost-sandbox-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(slice) })
	service := filepath.Join(slice, "service")
	require.NoError(t, os.MkdirAll(filepath.Join(service, "main"), 0o700))
	require.False(t, sandbox.Delegated(slice))
	require.False(t, sandbox.Delegated(service))
	for value, want := range map[string]bool{"0": false, "10": false, "": false, "1": true} {
		require.NoError(t, unix.Setxattr(service, "user.delegate", []byte(value), 0))
		require.Equal(t, want, sandbox.Delegated(service), value)
		require.Equal(t, want, sandbox.Delegated(filepath.Join(service, "main")), value)
		require.False(t, sandbox.Delegated(slice))
	}
}
