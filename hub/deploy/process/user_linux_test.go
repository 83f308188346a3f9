package process_test

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/process"
)

func owner(t *testing.T, path string) (user, group int) {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	return int(stat.Uid), int(stat.Gid)
}

func users(first, last int) func(*process.Config) {
	return func(c *process.Config) { c.Users = [2]int{first, last} }
}

// Each deployment has a user of its own, also with several hubs, and its id is free when it is
// deleted.
func TestUsersOfDeployments(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		return // an ordinary user has no choice
	}
	dir := t.TempDir()
	first, second := open(t, dir, users(1900000200, 1900000201)), open(t, dir, users(1900000200, 1900000201))
	seen := map[int]bool{}
	for i, d := range []*process.Driver{first, second} {
		name := "default-" + strconv.Itoa(i)
		require.NoError(t, d.Apply(t.Context(), deploy.Ref{Key: name}, 1, demand))
		work, _ := owner(t, filepath.Join(dir, name, "work"))
		folder, group := owner(t, filepath.Join(dir, name))
		require.Zero(t, folder, "the runtime cannot change its configuration")
		require.Equal(t, work, group)
		require.False(t, seen[work])
		seen[work] = true
	}
	require.Equal(t, map[int]bool{1900000200: true, 1900000201: true}, seen)
	require.ErrorContains(t, first.Apply(t.Context(), ref, 1, demand), "all user ids are in use")
	remove(t, first)
	gone := deploy.Ref{Key: "default-0"}
	require.Eventually(t, func() bool {
		o, err := first.Observe(t.Context(), gone)
		return err == nil && !o.Exists || first.Delete(t.Context(), gone) != nil
	}, 30*time.Second, 20*time.Millisecond)
	first.Wait()
	require.NoError(t, second.Apply(t.Context(), ref, 1, demand))
	_, group := owner(t, filepath.Join(dir, key))
	require.Equal(t, 1900000200, group)
	until(t, second, deploy.Running, nil)
	remove(t, second)
	last := deploy.Ref{Key: "default-1"}
	require.Eventually(t, func() bool {
		o, err := second.Observe(t.Context(), last)
		return err == nil && !o.Exists || second.Delete(t.Context(), last) != nil
	}, 30*time.Second, 20*time.Millisecond)
}

// A deployment of a former version, whose runtime was root, is given to its user, but no file that
// may have another name outside, and back if the hub no longer has user ids.
func TestDeploymentIsGivenToItsUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		return // an ordinary user has no choice
	}
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("secret"), 0o600))
	for _, id := range []int{0, 1900000300, 0} {
		d := open(t, dir, users(id, id))
		require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
		until(t, d, deploy.Running, nil)
		work := filepath.Join(dir, key, "work")
		if inner := filepath.Join(work, "a", "b"); id == 0 {
			require.NoError(t, os.MkdirAll(inner, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(inner, "file"), nil, 0o600))
			_ = os.Link(secret, filepath.Join(inner, "hard"))
			_ = os.Symlink(secret, filepath.Join(inner, "link"))
		}
		for name, want := range map[string]int{"": id, "a/b/file": id, "a/b/hard": 0, "a/b/link": id} {
			user, _ := owner(t, filepath.Join(work, name))
			require.Equal(t, want, user, name)
		}
		user, _ := owner(t, secret)
		require.Zero(t, user)
		until(t, d, deploy.Stopped, func() error { return d.Stop(t.Context(), ref, 1, 0) })
	}
	d := open(t, dir)
	remove(t, d)
}

// A runtime that was not confined may have replaced what the driver mounts.
func TestReplacedDirectoryIsRejected(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"work", "home", "state", "private"} {
		dir := t.TempDir()
		d := open(t, dir)
		require.NoError(t, d.Apply(t.Context(), ref, 1, demand))
		until(t, d, deploy.Stopped, func() error { return d.Stop(t.Context(), ref, 1, 0) })
		path := filepath.Join(dir, key, name)
		if name == "private" {
			path = filepath.Join(dir, key, "1", name)
		}
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, os.Symlink(t.TempDir(), path))
		require.ErrorContains(t, d.Apply(t.Context(), ref, 1, demand), name+" is not a directory")
		remove(t, d)
	}
}
