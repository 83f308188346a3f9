package main_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db/dbtest"
)

func TestAnotherDataDirectoryIsLogged(t *testing.T) {
	t.Parallel()
	const warning = "has another data directory"
	dbtest.Each(t, func(t *testing.T, url string) {
		env, files := database(t, url), []string{"BLOB_URL", "file://" + t.TempDir()}
		start := func(dir string, more ...string) string {
			env := slices.Concat(env, more)
			env[1] = dir
			return serving(t, env).Log.String()
		}
		first, second := t.TempDir(), t.TempDir()
		require.NotContains(t, start(first), warning)
		require.NotContains(t, start(first), warning, "a replica, or a restart")
		require.NotContains(t, start(second, append(files, "DEPLOYER", "none")...), warning, "it stores nothing in its directory")
		require.Contains(t, start(second, files...), warning, "its deployments")
		require.NotContains(t, start(second), warning, "it was logged")
		require.Contains(t, start(first, "DEPLOYER", "none"), warning, "its files")
	})
}
