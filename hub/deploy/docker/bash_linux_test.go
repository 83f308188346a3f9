//go:build docker

package docker_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy/docker"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// bash lets the agent of a deployment run a command, and returns the answer.
func (x *deployed) bash(t *testing.T, command string) string {
	t.Helper()
	input, err := json.Marshal(map[string]string{"command": command})
	require.NoError(t, err)
	c, err := client.New(client.Config{BaseURL: x.URL, APIKey: "planted-key", HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	require.NoError(t, err)
	var answer wire.RunResponse
	require.Eventually(t, func() bool { // the agent is ready
		answer, err = c.Complete(t.Context(), "helper", wire.RunRequest{Message: "/tool Bash " + string(input)})
		return err == nil
	}, patience, 100*time.Millisecond, "%v", &err)
	return answer.Text
}

// withBash permits the agent the tool, in a sandbox of commands.
func withBash(t *testing.T, d *docker.Driver, tenant string, sandbox agent.Sandbox) *deployed {
	t.Helper()
	x := prepared(t, tenant)
	req := request(x.ref.Key, tenant)
	req.Config.Sandbox = sandbox
	req.Config.AllowedTools, req.Config.PermissionMode = []string{"Bash"}, "bypassPermissions"
	x.start(t, d, req)
	return x
}

// A chat with the tool runs commands as the user of the container, with the files of the deployment
// only, and processes that a command leaves do not remain.
func TestBashInAContainer(t *testing.T) {
	t.Parallel()
	x := withBash(t, open(t), "acme", agent.Sandbox{})
	out := x.bash(t, `echo "user $UID in $PWD"; echo written >file && echo $(<file); echo x >/file; echo x >/run/agenthost/keys; echo $(</run/agenthost/keys); (exec 3<>/dev/null) & (exec 3<>/dev/null) &`)
	require.Contains(t, out, "user 65532 in /data/work")
	require.Contains(t, out, "written")
	require.Contains(t, out, "/file: ")
	require.NotContains(t, out, "planted-key")
	x.bash(t, "wait")
	list := shell(t, x.container, `for f in /proc/[0-9]*/stat; do read -r line <$f; echo "$line"; done`)
	require.NotContains(t, list, ") Z ", "the first process waits for those of others")
}

// Only the sandbox of commands separates them from the request of their runtime, as the documents
// state: an agent without one reads the request, and nothing of the memory of the runtime.
func TestSandboxSeparatesCommandsFromTheRequest(t *testing.T) {
	t.Parallel()
	const read = `for f in keys agents.yaml; do echo $(</run/agenthost/$f) $(</proc/1/root/run/agenthost/$f); done`
	d := open(t)
	for name, sandbox := range map[string]agent.Sandbox{
		"of the default": {}, "with the network": {Network: agentvalue.NetworkAll}, "with other directories": {Read: []string{"/usr"}, Write: []string{"/data/work"}},
	} {
		out := withBash(t, d, "acme", sandbox).bash(t, read)
		require.Contains(t, out, "/run/agenthost/keys: Permission denied", name)
		require.NotContains(t, out, "planted", name)
	}
	for name, sandbox := range map[string]agent.Sandbox{"off": {Mode: agentvalue.SandboxOff}, "the directory is permitted": {Read: []string{"/"}}} {
		x := withBash(t, d, "acme", sandbox)
		out := x.bash(t, read)
		require.Contains(t, out, "planted-key", name)
		require.Contains(t, out, "planted-prompt", name)
		out = x.bash(t, `for f in environ mem maps fd/0 cwd/run/agenthost/keys; do (exec 3</proc/1/$f) && echo opened $f; done`)
		require.Contains(t, out, "Permission denied", name)
		require.NotContains(t, out, "opened", name)
	}
}
