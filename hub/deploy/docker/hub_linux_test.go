//go:build docker

package docker_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"
)

var hubBinary = sync.OnceValues(func() (string, error) { return build("hub") })

// hub is a hub with SQLite.
type hub struct {
	t     *testing.T
	data  string
	cmd   *exec.Cmd
	url   string
	setup string
	token string
	env   []string // in addition
	agent string   // the engine has the agents of all tests
}

func newHub(t *testing.T) *hub {
	return &hub{t: t, data: t.TempDir(), agent: fmt.Sprint("helper-", names.Add(1))}
}

// deployment returns the path of the deployment of the agent.
func (h *hub) deployment() string { return agentPath + "/" + h.agent + "/deploy" }

// start starts the hub with a deployer.
func (h *hub) start(deployer string) {
	h.t.Helper()
	path, err := hubBinary()
	require.NoError(h.t, err)
	h.cmd = exec.CommandContext(h.t.Context(), path, "--addr", "127.0.0.1:0")
	settings := filepath.Join(h.data, "hub.yaml")
	require.NoError(h.t, os.WriteFile(settings, []byte("sandbox: {users: none}"), 0o600))
	h.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HUB_DATA_DIR=" + h.data, "DEPLOYER=" + deployer, "DOCKER_HOST=" + socket,
		"DEPLOYER_IMAGE=" + runtimeImage, "DEPLOYER_CPU=500m", "HUB_CONFIG=" + settings,
	}
	h.cmd.Env = append(h.cmd.Env, h.env...) // the last value of a name has effect
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	require.NoError(h.t, err)
	require.NoError(h.t, h.cmd.Start())
	h.signIn(out)
}

// signIn reads the output of the hub, and creates the first user of a new one.
func (h *hub) signIn(out io.Reader) {
	h.t.Helper()
	lines := bufio.NewReader(out)
	for token := regexp.MustCompile(`"setup_token": "([^"]+)"`); ; {
		line, err := lines.ReadString('\n')
		require.NoError(h.t, err)
		if _, url, found := strings.Cut(line, "listening on "); found && h.url == "" {
			h.url = strings.TrimSpace(url)
		}
		if m := token.FindStringSubmatch(line); m != nil {
			h.setup = m[1]
		}
		if h.url != "" && (h.setup != "" || h.token != "") {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // it ends with the hub
	if h.token == "" {
		h.token, _ = h.call("POST", "/auth/setup", `{"password":"correct horse battery","setup_token":"`+h.setup+`"}`)["access_token"].(string)
	}
}

func (h *hub) stop(signal syscall.Signal) {
	h.t.Helper()
	url := h.url
	require.NoError(h.t, h.cmd.Process.Signal(signal))
	_ = h.cmd.Wait() // its status is that of the signal
	require.NotEmpty(h.t, url)
	h.url = ""
}

func (h *hub) send(method, path, body string) string {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	require.NoError(h.t, err)
	req.Header.Set("Content-Type", "application/json")
	if h.token != "" {
		req.Header.Set("Authorization", "Bearer "+h.token)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(h.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(h.t, err)
	require.NoError(h.t, res.Body.Close())
	require.Less(h.t, res.StatusCode, 300, "%s %s: %s", method, path, text)
	return string(text)
}

func (h *hub) call(method, path, body string) (fields map[string]any) {
	h.t.Helper()
	text := h.send(method, path, body)
	if text != "" {
		require.NoError(h.t, json.Unmarshal([]byte(text), &fields), text)
	}
	return fields
}

const agentPath = "/api/v1/admin/agents"

// reach waits until the deployment has a state on a platform.
func (h *hub) reach(state, backend string) {
	h.t.Helper()
	var s map[string]any
	require.Eventually(h.t, func() bool {
		s = h.call("GET", h.deployment(), "")
		return s["state"] == state && s["backend"] == backend
	}, patience, 20*time.Millisecond, "%v", &s)
}

func (h *hub) chat(session, message string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool { // the endpoint may be that of the runtime before
		req, err := http.NewRequestWithContext(h.t.Context(), "POST", h.url+"/api/v1/agents/"+h.agent+"/chat/sessions/"+session+"/messages", strings.NewReader(`{"message":"`+message+`"}`))
		require.NoError(h.t, err)
		req.Header.Set("Authorization", "Bearer "+h.token)
		req.Header.Set("Content-Type", "application/json")
		res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
		require.NoError(h.t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(h.t, err)
		require.NoError(h.t, res.Body.Close())
		return res.StatusCode == http.StatusOK && strings.Contains(string(text), "event: done") && strings.Contains(string(text), message)
	}, patience, 100*time.Millisecond)
}

// A chat begins with a runtime that is a process. The hub is then started with the other deployer,
// killed and started again. The chat continues, in one container.
func TestChatMovesFromProcessToContainer(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.start("process")
	defer func() { h.stop(syscall.SIGTERM) }()
	h.call("POST", agentPath, `{"name": "`+h.agent+`", "providerId": "demo", "model": "demo"}`)
	h.call("POST", h.deployment(), "")
	h.reach("running", "process")
	process, _ := h.call("GET", h.deployment(), "")["runtimeUrl"].(string)
	session, _ := h.call("POST", "/api/v1/agents/"+h.agent+"/chat/sessions", "{}")["id"].(string)
	h.chat(session, "from-a-process")
	h.stop(syscall.SIGTERM)
	require.True(t, healthy(process), "runtimes continue without a hub")

	h.start("docker")
	h.call("POST", h.deployment(), `{"force": true}`)
	require.Eventually(t, func() bool {
		s := h.call("GET", h.deployment(), "")
		return s["state"] == "running" && s["runtimeUrl"] != process && s["runtimeUrl"] != nil
	}, patience, 20*time.Millisecond)
	h.chat(session, "from-a-container")
	require.Eventually(t, func() bool { return !healthy(process) }, patience, 20*time.Millisecond, "the process is stopped")

	h.stop(syscall.SIGKILL)
	h.start("docker")
	h.reach("running", "docker")
	h.chat(session, "after-a-kill")
	messages := h.send("GET", "/api/v1/agents/"+h.agent+"/chat/sessions/"+session+"/messages", "")
	for _, text := range []string{"from-a-process", "from-a-container", "after-a-kill"} {
		require.Contains(t, messages, text)
	}
	key := client.Filters{}.Add("label", "agenthost.key=default-"+h.agent)
	require.Eventually(t, func() bool { // the first revision on the engine has drained
		list, err := engine(t).ContainerList(t.Context(), client.ContainerListOptions{Filters: key})
		require.NoError(t, err)
		return len(list.Items) == 1
	}, patience, 50*time.Millisecond)
	h.send("DELETE", h.deployment(), "")
	require.Eventually(t, func() bool {
		list, err := engine(t).VolumeList(t.Context(), client.VolumeListOptions{Filters: key})
		require.NoError(t, err)
		return len(list.Items) == 0
	}, patience, 50*time.Millisecond)
	left(t.Context(), t, "default-"+h.agent)
}

// Deploy to ready, which the benchmarks of this module quote.
func TestDeployToReady(t *testing.T) {
	h := newHub(t)
	h.start("docker")
	defer func() { h.stop(syscall.SIGTERM) }()
	h.call("POST", agentPath, `{"name": "`+h.agent+`", "providerId": "demo", "model": "demo"}`)
	for range 5 {
		began := time.Now()
		h.call("POST", h.deployment(), "")
		h.reach("running", "docker")
		t.Log("deploy to running:", time.Since(began).Round(time.Millisecond))
		h.send("DELETE", h.deployment(), "")
		h.reach("not_deployed", "docker")
	}
}
