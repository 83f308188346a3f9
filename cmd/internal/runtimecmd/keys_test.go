package runtimecmd_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd"
)

func TestKeysOfAFileAreReplaced(t *testing.T) {
	dir := t.TempDir()
	file, config := filepath.Join(dir, "keys"), filepath.Join(dir, "agents.yaml")
	write := func(path, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	}
	write(config, demo)
	start := func(ctx context.Context, in *daemontest.Instance, env ...string) error {
		cmd := runtimecmd.Command(runtimecmd.Drivers{}, daemontest.Getenv(append(env, "AGENT_HTTP_API_KEY_FILE", file)), in.Stdout, in.Log)
		cmd.SetArgs([]string{"--addr", "127.0.0.1:0", "--config", config})
		return cmd.ExecuteContext(ctx)
	}
	none := &daemontest.Instance{}
	require.Error(t, start(t.Context(), none), "there is no file")
	for _, text := range []string{"", " \n", "first,,second", strings.Repeat("x", 65<<10)} {
		write(file, text)
		require.Error(t, start(t.Context(), none))
	}
	write(file, "first\n")
	require.ErrorContains(t, start(t.Context(), none, "AGENT_HTTP_API_KEY", "other"), "both set")

	in := daemontest.Serve(t, func(ctx context.Context, in *daemontest.Instance) error { return start(ctx, in) })
	status := func(key string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, in.URL+"/v1/agents", http.NoBody)
		require.NoError(t, err)
		req.Header.Set("X-Api-Key", key)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	await := func(key string, want int) {
		t.Helper()
		require.Eventually(t, func() bool { return status(key) == want }, daemontest.Patience, 20*time.Millisecond)
	}
	require.Equal(t, http.StatusOK, status("first"))
	write(file, "first, second")
	await("second", http.StatusOK)
	require.Equal(t, http.StatusOK, status("first"))
	require.NoError(t, os.Remove(file))
	logged := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Count(in.Log.String(), "keys are not replaced") == n }, daemontest.Patience, 20*time.Millisecond)
	}
	logged(1)
	write(file, "third,,")
	logged(2)
	require.Equal(t, http.StatusOK, status("first"), "the former keys remain valid")
	write(file, "third")
	await("third", http.StatusOK)
	await("first", http.StatusUnauthorized)
	require.NotContains(t, in.Log.String(), "third")
}

// A configuration that names the variable of a key gets the value of its file.
func TestAConfigurationNamesAKeyOfAFile(t *testing.T) {
	dir := t.TempDir()
	key, config := filepath.Join(dir, "key"), filepath.Join(dir, "agents.yaml")
	require.NoError(t, os.WriteFile(key, []byte("sk-test\n"), 0o600))
	require.NoError(t, os.WriteFile(config, []byte(
		`agents: [{id: a, model: m, provider: {protocol: openai, apiKey: "${OPENAI_API_KEY}"}}]`), 0o600))
	check := func(env ...string) error {
		cmd := runtimecmd.Command(runtimecmd.Drivers{}, daemontest.Getenv(env), io.Discard, io.Discard)
		cmd.SetArgs([]string{"--config", config, "--check"})
		return cmd.ExecuteContext(t.Context())
	}
	require.ErrorContains(t, check(), "OPENAI_API_KEY")
	require.NoError(t, check("OPENAI_API_KEY_FILE", key))
}
