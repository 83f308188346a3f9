package process_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// A former version had the files of its only revision in the directory of the deployment. Its
// runtime is adopted, gets keys, is stopped and started again, and is replaced by a revision next
// to it.
func TestFolderOfAFormerVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := open(t, dir)
	require.NoError(t, d.Apply(t.Context(), ref, 3, demand))
	running := until(t, d, deploy.Running, nil)
	require.Eventually(t, func() bool { // it has read its files
		lines, err := d.Logs(t.Context(), ref, 3, 10)
		return err == nil && len(lines) > 0
	}, time.Minute, 20*time.Millisecond)
	folder := filepath.Join(dir, key)
	own := []string{"agents.yaml", "env.json", "keys", "log", "private", "state.json"}
	for _, name := range own {
		require.NoError(t, os.Rename(filepath.Join(folder, "3", name), filepath.Join(folder, name)))
	}
	require.NoError(t, os.Remove(filepath.Join(folder, "3")))

	d = open(t, dir)
	require.Equal(t, running, until(t, d, deploy.Running, nil), "it is adopted")
	require.NoError(t, d.SetKeys(t.Context(), ref, []agent.Secret{"next-key"}))
	list, err := os.ReadFile(filepath.Join(folder, "keys"))
	require.NoError(t, err)
	require.Equal(t, "next-key", string(list))
	lines, err := d.Logs(t.Context(), ref, 3, 10)
	require.NoError(t, err)
	require.NotEmpty(t, lines)
	require.NoError(t, d.Apply(t.Context(), ref, 4, demand))
	o, err := d.Observe(t.Context(), ref)
	require.NoError(t, err)
	require.Equal(t, []int64{3, 4}, []int64{o.Runtimes[0].Revision, o.Runtimes[1].Revision})
	require.NotEqual(t, o.Runtimes[0].URL, o.Runtimes[1].URL)

	phase := func(revision int64, want deploy.Phase, call func() error) {
		t.Helper()
		require.Eventually(t, func() bool {
			require.NoError(t, call())
			o, err := d.Observe(t.Context(), ref)
			require.NoError(t, err)
			return o.Runtime(revision).Phase == want
		}, time.Minute, 20*time.Millisecond)
	}
	phase(3, deploy.Stopped, func() error { return d.Stop(t.Context(), ref, 3, 0) })
	phase(3, deploy.Running, func() error { return d.Apply(t.Context(), ref, 3, demand) })
	require.NoDirExists(t, filepath.Join(folder, "3"))
	phase(3, absent, func() error { return d.Discard(t.Context(), ref, 3) })
	for _, name := range own {
		require.NoFileExists(t, filepath.Join(folder, name))
	}
	require.NoDirExists(t, filepath.Join(folder, "private"))
	for _, name := range []string{"work", "home", "state", "4"} {
		require.DirExists(t, filepath.Join(folder, name))
	}
	o, err = d.Observe(t.Context(), ref)
	require.NoError(t, err)
	require.Len(t, o.Runtimes, 1)
	require.Equal(t, deploy.Running, o.Runtimes[0].Phase)
	remove(t, d)
	require.NoDirExists(t, folder)
}
