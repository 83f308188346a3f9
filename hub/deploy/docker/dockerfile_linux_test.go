//go:build docker && images

package docker_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/docker"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// withImage returns a driver with an image of the Dockerfile, which tools/test-image has built.
func withImage(t *testing.T, target string) *docker.Driver {
	t.Helper()
	file, err := os.Open(filepath.Join(os.Getenv("IMAGES"), target+".tar"))
	require.NoError(t, err)
	progress, err := engine(t).ImageLoad(t.Context(), file) // it closes the file
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, progress)
	require.NoError(t, err)
	require.NoError(t, progress.Close())
	return open(t, func(c *docker.Config) { c.Image = "agenthost-" + target })
}

func TestImageRuntime(t *testing.T) {
	x := start(t, withImage(t, "runtime"), "acme")
	c, err := client.New(client.Config{BaseURL: x.URL, APIKey: "planted-key"})
	require.NoError(t, err)
	var answer wire.RunResponse
	require.Eventually(t, func() bool { // the agent is ready
		answer, err = c.Complete(t.Context(), "helper", wire.RunRequest{Message: "hello"})
		return err == nil
	}, patience, 100*time.Millisecond, "%v", &err)
	require.Contains(t, answer.Text, "hello")
}

// A chat runs the programs of the image with the tool Bash. The deployment has its files after it
// was started again.
func TestImageTools(t *testing.T) {
	d := withImage(t, "runtime-tools")
	x := withBash(t, d, "acme", agent.Sandbox{})
	out := x.bash(t, `id -u; pwd; echo 'print(6*7)' >a.py && python3 a.py; node -e 'console.log(6*9)'; git init -q . && git rev-parse --is-inside-work-tree; rg -c print a.py; touch /file /usr/file`)
	require.Regexp(t, `(?s)65532\n/data/work\n42\n54\ntrue\n1\n`, out)
	require.Regexp(t, `'?/file'?: Read-only file system`, out)
	require.NoError(t, d.Stop(t.Context(), x.ref, 1, 0))
	reach(t, d, x.ref, deploy.Stopped)
	req := request(x.ref.Key, "acme")
	req.Config.AllowedTools, req.Config.PermissionMode = []string{"Bash"}, "bypassPermissions"
	require.NoError(t, d.Apply(t.Context(), x.ref, 1, req))
	x.Runtime = reach(t, d, x.ref, deploy.Running)
	require.Contains(t, x.bash(t, "python3 a.py"), "42")
}
