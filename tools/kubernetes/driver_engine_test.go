package kubernetes_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// engine is a Docker engine next to the cluster.
type engine struct {
	address string
	client  *http.Client
}

// startEngine starts an engine with the image of the runtime until the test ends.
func startEngine(t *testing.T) engine {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp/agenthost-kubernetes", "engine-") // a file system in memory
	require.NoError(t, err)
	socket := filepath.Join(dir, "socket")
	log, err := os.Create(filepath.Join(dir, "log")) //nolint:gosec // of this test
	require.NoError(t, err)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "dockerd", "--bridge", "none", "--host", "unix://"+socket,
		"--data-root", dir+"/data", "--exec-root", dir+"/exec", "--pidfile", dir+"/pid")
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s", text[max(len(text)-4000, 0):])
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait() // its status is that of the signal
		require.NoError(t, log.Close())
	})
	e := engine{address: "unix://" + socket, client: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
	require.Eventually(t, func() bool {
		res, err := e.client.Get("http://engine/_ping")
		return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK
	}, patience, 50*time.Millisecond)
	path, err := runtimeBinary()
	require.NoError(t, err)
	binary, err := os.ReadFile(path)
	require.NoError(t, err)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "runtime", Mode: 0o755, Size: int64(len(binary))}))
	_, err = w.Write(binary)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	e.call(t, http.MethodPost, "/images/create?fromSrc=-&repo=agenthost-runtime&tag=test&changes=ENTRYPOINT%20%5B%22%2Fruntime%22%5D", &archive)
	return e
}

func (e engine) call(t *testing.T, method, path string, body io.Reader) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://engine"+path, body)
	require.NoError(t, err)
	res, err := e.client.Do(req)
	require.NoError(t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusOK, res.StatusCode, "%s", text)
	return text
}

// running returns the number of containers that run.
func (e engine) running(t *testing.T) int {
	t.Helper()
	var list []any
	require.NoError(t, json.Unmarshal(e.call(t, http.MethodGet, "/containers/json", http.NoBody), &list))
	return len(list)
}
