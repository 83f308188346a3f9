package main_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	main "github.com/seed93082962/agenthost/cmd/runtime"
	"github.com/seed93082962/agenthost/runtime/client"
)

// scratch is the directory of the built command. It is removed after the tests.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "agenthost-runtime-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(scratch)
		os.Exit(code)
	}))
}

// binary builds the command as it is released.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "runtime")
	return path, daemontest.Build(path)
})

// patience bounds the time that a test waits for an expected event.
const patience = daemontest.Patience

// instance is a running runtime, in this process or in another.
type instance = daemontest.Instance

// serving runs the command in this process on a free port until the test ends. The environment is
// given in pairs.
func serving(t *testing.T, env []string, args ...string) *instance {
	t.Helper()
	return daemontest.Serve(t, func(ctx context.Context, in *instance) error {
		return main.Run(ctx, append([]string{"--addr", "127.0.0.1:0"}, args...), daemontest.Getenv(env), in.Stdout, in.Log)
	})
}

// once runs the command in this process until it ends.
func once(t *testing.T, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, log bytes.Buffer
	err = main.Run(t.Context(), args, daemontest.Getenv(env), &out, &log)
	return out.String(), log.String(), err
}

// process is a running binary.
type process = daemontest.Process

// spawn starts the command in the directory dir, like [daemontest.Spawn].
func spawn(t testing.TB, dir string, env []string, args ...string) *process {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	return daemontest.Spawn(t, path, dir, env, args...)
}

// clientOf returns a client for the runtime at url.
func clientOf(t testing.TB, url, key string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{BaseURL: url, APIKey: key, HTTPClient: caller(t)})
	require.NoError(t, err)
	return c
}

// caller returns an HTTP client whose connections are closed at the end of the test.
func caller(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// write writes a configuration file to a new directory and returns the directory.
func write(t testing.TB, text string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents.yaml"), []byte(strings.TrimSpace(text)+"\n"), 0o600))
	return dir
}
