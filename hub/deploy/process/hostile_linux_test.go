package process_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/process"
)

// A state of a former boot names a group that is another program's now.
func TestGroupOfAnotherProgramIsNotKilled(t *testing.T) {
	t.Parallel()
	for name, birth := range map[string]string{"another boot": "00000000-0000-0000-0000-000000000000/1", "no birth": "", "this boot": "*"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := open(t, dir)
			require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
			until(t, d, deploy.Running, nil)
			until(t, d, deploy.Stopped, func() error { return d.Stop(t.Context(), ref, 1, 0) })

			// The leader of the group has ended, and a member has not.
			other := exec.CommandContext(t.Context(), "/bin/sh", "-c", "sleep 600 >/dev/null & exit 0")
			other.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			require.NoError(t, other.Start())
			group := other.Process.Pid
			t.Cleanup(func() { _ = syscall.Kill(-group, syscall.SIGKILL) })
			require.NoError(t, other.Wait())
			require.Equal(t, 1, populated(group))
			if birth == "*" {
				boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
				require.NoError(t, err)
				birth = strings.TrimSpace(string(boot)) + "/1"
			}
			state(t, dir, map[string]any{"revision": 1, "pid": group, "birth": birth, "addr": "127.0.0.1:1", "startedAt": time.Now()})
			until(t, d, deploy.Exited, nil)
			require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
			until(t, d, deploy.Running, nil)
			require.Equal(t, 1, populated(group))
			remove(t, d)
			require.Equal(t, 1, populated(group))
		})
	}
}

func state(t *testing.T, dir string, content any) {
	t.Helper()
	text, err := json.Marshal(content)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, key, "1", "state.json"), text, 0o600))
}

// An agent with Bash can damage the files next to its working directory. Neither a deployment nor
// its end depends on them, and no process runs twice.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	replace := func(path string, text string) { _ = os.Remove(path); _ = os.WriteFile(path, []byte(text), 0o600) }
	for name, damage := range map[string]func(path string){
		"truncated":   func(path string) { _ = os.Truncate(path, 5) },
		"empty":       func(path string) { _ = os.Truncate(path, 0) },
		"garbage":     func(path string) { replace(path, "\x00\xff{]") },
		"huge":        func(path string) { _ = os.Truncate(path, 1<<40) },
		"missing":     func(path string) { _ = os.Remove(path) },
		"a link":      func(path string) { _ = os.Remove(path); _ = os.Symlink("/etc/passwd", path) },
		"a loop":      func(path string) { _ = os.Remove(path); _ = os.Symlink(path, path) },
		"a directory": func(path string) { _ = os.Remove(path); _ = os.MkdirAll(filepath.Join(path, "x"), 0o700) },
		"a pipe":      func(path string) { _ = os.Remove(path); _ = syscall.Mkfifo(path, 0o600) },
		"all processes": func(path string) {
			replace(path, `{"revision":1,"pid":-1,"birth":"x","addr":"127.0.0.1:1"}`)
		},
		"process 1":       func(path string) { replace(path, `{"revision":1,"pid":1,"birth":"x","addr":"127.0.0.1:1"}`) },
		"another machine": func(path string) { replace(path, `{"revision":1,"pid":2,"birth":"x","addr":"192.0.2.1:80"}`) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{filepath.Join(key, "1", "state.json"), filepath.Join(".locks", key), filepath.Join(key, "1", "log")} {
				dir := t.TempDir()
				d := open(t, dir)
				require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
				until(t, d, deploy.Running, nil)
				former := pid(t, dir, key)
				damage(filepath.Join(dir, file))
				_, err := d.Logs(t.Context(), ref, 1, 10)
				if !strings.HasSuffix(file, "log") {
					require.NoError(t, err)
				}
				_, err = d.Observe(t.Context(), ref)
				require.NoError(t, err)
				_, err = d.List(t.Context(), "")
				require.NoError(t, err)
				remove(t, d)
				require.Eventually(t, func() bool { return populated(former) == 0 }, 30*time.Second, 20*time.Millisecond, "%s: it was not killed", file)
				require.NoError(t, d.Apply(t.Context(), ref, 2, demand))
				until(t, d, deploy.Running, nil)
				remove(t, d)
				d.Wait()
			}
		})
	}
}

// Links and pipes that an agent without a sandbox has created in the place of files, also of
// temporary ones, are not followed, and delay no call.
func TestPlantedFilesAreReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir)
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	until(t, d, deploy.Running, nil)
	victim := filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte("content"), 0o600))
	for name, plant := range map[string]func(path string) error{
		"a link": func(path string) error { return os.Symlink(victim, path) },
		"a pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a tree": func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) },
	} {
		until(t, d, deploy.Stopped, func() error { return d.Stop(t.Context(), ref, 1, 0) })
		d.Wait()
		for _, file := range []string{"agents.yaml", "env.json", "keys", "log", "log.1", ".agents.yaml.new", ".env.json.new", ".keys.new", ".state.json.new"} {
			path := filepath.Join(dir, key, "1", file)
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, plant(path), name)
		}
		require.NoError(t, d.Apply(t.Context(), ref, 1, demand), name)
		until(t, d, deploy.Running, nil)
	}
	content, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "content", string(content))
	remove(t, d)
}

// A tree with directories without permissions does not prevent that its deployment ends.
func TestReadOnlyTreeIsDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir)
	for range 2 {
		require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
		inner := filepath.Join(dir, key, "work", "a", "b")
		require.NoError(t, os.MkdirAll(inner, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(inner, "file"), nil, 0o400))
		require.NoError(t, os.Symlink("/", filepath.Join(inner, "root")))
		for _, path := range []string{inner, filepath.Dir(inner), filepath.Join(dir, key, "work"), filepath.Join(dir, key)} {
			require.NoError(t, os.Chmod(path, 0o500))
		}
		remove(t, d)
	}
	d.Wait()
	left, err := filepath.Glob(filepath.Join(dir, ".trash-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A deep tree is deleted with few descriptors: the hub needs the others. The test changes the limit
// of its process, so it is not parallel.
func TestDeepTreeIsDeleted(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	at, err := os.OpenRoot(filepath.Join(dir, key, "work"))
	require.NoError(t, err)
	for range 700 {
		name := strings.Repeat("x", 200)
		require.NoError(t, at.Mkdir(name, 0o700))
		inner, err := at.OpenRoot(name)
		require.NoError(t, err)
		require.NoError(t, inner.WriteFile("file", nil, 0o400))
		require.NoError(t, at.Close())
		at = inner
	}
	require.NoError(t, at.Close())
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 500, Max: limit.Max}))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) }()
	remove(t, d)
	d.Wait()
	left, err := filepath.Glob(filepath.Join(dir, ".trash-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A runtime that is stopped by a signal takes no other one.
func TestFrozenRuntimeIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir, func(c *process.Config) { c.Grace = 200 * time.Millisecond })
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	until(t, d, deploy.Running, nil)
	require.NoError(t, syscall.Kill(pid(t, dir, key), syscall.SIGSTOP))
	until(t, d, deploy.Stopped, func() error { return d.Stop(t.Context(), ref, 1, 0) })
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	until(t, d, deploy.Running, nil)
	remove(t, d)
}

// The port of a runtime that crashed is not free before the next one has it.
func TestPortOfACrashedRuntimeIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir)
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	first := until(t, d, deploy.Running, nil)
	require.NoError(t, syscall.Kill(pid(t, dir, key), syscall.SIGKILL))
	until(t, d, deploy.Exited, nil)
	l, err := net.Listen("tcp", strings.TrimPrefix(first.URL, "http://"))
	if err == nil {
		_ = l.Close()
	}
	require.Error(t, err)
	require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
	require.Equal(t, first.URL, until(t, d, deploy.Running, nil).URL)
	remove(t, d)
	listen(t, first.URL)() // a deployment that was deleted keeps no port
}
