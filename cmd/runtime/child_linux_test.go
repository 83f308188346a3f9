package main_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// deployed starts the runtime of a deployment in dir, as a deployer does.
func deployed(t *testing.T, dir, definition string, env ...string) (url string, log *logtest.Buffer) {
	t.Helper()
	path, err := binary()
	require.NoError(t, err)
	log = &logtest.Buffer{}
	for name, text := range map[string]string{
		agentvalue.DeployedKeys: "key-of-the-test",
		agentvalue.DeployedFile: "cwd: " + dir + "\nstateDir: " + filepath.Join(dir, "state") + "\nagents: [" + definition + "]\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	file, err := listener.(*net.TCPListener).File()
	require.NoError(t, err)
	defer file.Close()
	cmd := exec.Command(path, agentvalue.DeployedArg)
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.Stdin, cmd.ExtraFiles = dir, env, log, strings.NewReader("\n"), []*os.File{file}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		require.NoError(t, cmd.Wait())
	})
	return "http://" + listener.Addr().String(), log
}

// The replicas of a deployment, as a platform starts them, have the bus of their environment.
func TestReplicasOfADeployment(t *testing.T) {
	bus := serveNATS(t)
	secret := filepath.Join(t.TempDir(), "url")
	require.NoError(t, os.WriteFile(secret, []byte(bus+"\n"), 0o600))
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("One"), modeltest.Hang())))
	definition := "{id: helper, model: m, provider: {protocol: anthropic, baseUrl: '" + up.URL + "', apiKey: k}}"
	one, log := deployed(t, t.TempDir(), definition, "AGENT_BUS_URL="+bus)
	two, _ := deployed(t, t.TempDir(), definition, "AGENT_BUS_URL_FILE="+secret)
	for _, url := range []string{one, two} {
		require.Eventually(t, func() bool { return clientOf(t, url, "key-of-the-test").Ready(t.Context()) == nil }, patience, 10*time.Millisecond)
	}
	cancelled := false
	for event, err := range clientOf(t, one, "key-of-the-test").Run(t.Context(), "helper", wire.RunRequest{Message: "hello"}) {
		require.NoError(t, err)
		switch payload := event.Payload.(type) {
		case *wire.System:
			response, err := clientOf(t, two, "key-of-the-test").Cancel(t.Context(), payload.RunID)
			require.NoError(t, err)
			require.Equal(t, wire.StateCancelling, response.State)
		case *wire.Cancelled:
			cancelled = payload.Reason == wire.ReasonClientRequest
		}
	}
	require.True(t, cancelled)
	require.NotContains(t, log.String(), "planted")
}

// The file with the URL of the bus is protected as the keys of a deployment are.
func TestTheBusOfADeploymentIsProtected(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "url"), []byte(serveNATS(t)), 0o600))
	url, _ := deployed(t, dir, "{id: helper, model: demo, permissionMode: acceptEdits, provider: {protocol: demo}}", "AGENT_BUS_URL_FILE=url")
	c := clientOf(t, url, "key-of-the-test")
	require.Eventually(t, func() bool { return c.Ready(t.Context()) == nil }, patience, 10*time.Millisecond)
	for name, permitted := range map[string]bool{"url": false, "other": true} {
		_, err := c.Complete(t.Context(), "helper", wire.RunRequest{Message: `/tool Write {"file_path":"` + name + `","content":"after"}`})
		require.NoError(t, err)
		text, _ := os.ReadFile(filepath.Join(dir, name))
		require.Equal(t, permitted, string(text) == "after", name)
	}
}
