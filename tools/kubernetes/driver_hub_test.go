package kubernetes_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hub is a hub with SQLite.
type hub struct {
	t     *testing.T
	place place
	data  string
	cmd   *exec.Cmd
	url   string
	setup string
	token string
}

// start starts the hub with a deployer and more settings.
func (h *hub) start(deployer string, settings ...string) {
	h.t.Helper()
	path, err := hubBinary()
	require.NoError(h.t, err)
	h.cmd = exec.CommandContext(h.t.Context(), path, "--addr", "127.0.0.1:0")
	config := filepath.Join(h.data, "hub.yaml")
	require.NoError(h.t, os.WriteFile(config, []byte("sandbox: {users: none}\ndeployer: {leaseTime: 1s}\n"), 0o600))
	h.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HUB_DATA_DIR=" + h.data, "DEPLOYER=" + deployer, "HUB_CONFIG=" + config,
		"KUBECONFIG=" + h.place.cluster.Kubeconfig(), "KUBERNETES_NAMESPACE=" + h.place.namespace, "DEPLOYER_IMAGE=" + runtimeImage,
		"DEPLOYER_CPU=100m", "DEPLOYER_MEMORY=256Mi",
	}
	h.cmd.Env = append(h.cmd.Env, settings...)
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	require.NoError(h.t, err)
	require.NoError(h.t, h.cmd.Start())
	lines := bufio.NewReader(out)
	for token := regexp.MustCompile(`"setup_token": "([^"]+)"`); ; {
		line, err := lines.ReadString('\n')
		require.NoError(h.t, err)
		if _, url, found := strings.Cut(line, "listening on "); found {
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
	require.NoError(h.t, h.cmd.Process.Signal(signal))
	_ = h.cmd.Wait() // its status is that of the signal
	h.url = ""
}

func (h *hub) send(method, path, body string) (int, string) {
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
	return res.StatusCode, string(text)
}

func (h *hub) call(method, path, body string) (fields map[string]any) {
	h.t.Helper()
	code, text := h.send(method, path, body)
	require.Less(h.t, code, 300, "%s %s: %s", method, path, text)
	if text != "" {
		require.NoError(h.t, json.Unmarshal([]byte(text), &fields), text)
	}
	return fields
}

const agentPath = "/api/v1/admin/agents"

// reach waits until the status of the deployment has a text.
func (h *hub) reach(text string) {
	h.t.Helper()
	end := time.Now().Add(2 * patience)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for ; ; <-ticker.C {
		_, status := h.send("GET", agentPath+"/helper/deploy", "")
		if strings.Contains(status, text) {
			return
		}
		require.False(h.t, time.Now().After(end), "no %q: %s", text, status)
	}
}

func (h *hub) chat(session, message string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool { // the endpoint may be that of the runtime before
		code, text := h.send("POST", "/api/v1/agents/helper/chat/sessions/"+session+"/messages", `{"message":"`+message+`"}`)
		return code == http.StatusOK && strings.Contains(text, "event: done") && strings.Contains(text, message)
	}, patience, 100*time.Millisecond)
}

// A chat begins with a runtime that is a process. The hub is then started with each of the other
// deployers, and the agent is deployed again: the chat continues, in a container and then in a pod,
// also after the hub was killed. The former runtimes are stopped. Nothing but the claim remains in
// the cluster at the end.
func TestChatMovesFromProcessToContainerToPod(t *testing.T) {
	p := newPlace(t)
	e := startEngine(t)
	settings := []string{"DOCKER_HOST=" + e.address, "DEPLOYER_CPU=500m"}
	h := &hub{t: t, place: p, data: t.TempDir()}
	h.start("process")
	defer func() { h.stop(syscall.SIGTERM) }()
	h.call("POST", agentPath, `{"name": "helper", "providerId": "demo", "model": "demo"}`)
	h.call("POST", agentPath+"/helper/deploy", "")
	h.reach(`"state":"running"`)
	session, _ := h.call("POST", "/api/v1/agents/helper/chat/sessions", "{}")["id"].(string)
	h.chat(session, "from-a-process")
	h.stop(syscall.SIGTERM)

	h.start("docker", settings...)
	h.call("POST", agentPath+"/helper/deploy", `{"force": true}`)
	require.Eventually(t, func() bool { return e.running(t) == 1 }, patience, 50*time.Millisecond)
	h.reach(`"state":"running"`)
	h.chat(session, "from-a-container")
	h.stop(syscall.SIGTERM)
	require.Equal(t, 1, e.running(t), "runtimes continue without a hub")

	h.start("kubernetes", settings...)
	h.call("POST", agentPath+"/helper/deploy", `{"force": true}`)
	h.reach(`"runtimeUrl":"http://10.96.`)
	h.reach(`"state":"running"`)
	h.chat(session, "from-a-pod")
	require.Eventually(t, func() bool { return e.running(t) == 0 }, patience, 50*time.Millisecond, "the container is stopped")

	h.stop(syscall.SIGKILL)
	h.start("kubernetes", settings...)
	h.reach(`"state":"running"`)
	h.chat(session, "after-a-kill")
	_, messages := h.send("GET", "/api/v1/agents/helper/chat/sessions/"+session+"/messages", "")
	for _, text := range []string{"from-a-process", "from-a-container", "from-a-pod", "after-a-kill"} {
		require.Contains(t, messages, text)
	}
	require.Eventually(t, func() bool { return len(p.pods(key, "")) == 1 }, patience, 50*time.Millisecond, "the first revision has drained")
	h.call("POST", agentPath+"/helper/deploy/stop", "")
	h.reach(`"state":"stopped"`)
	require.Empty(t, p.pods(key, ""))
	h.call("DELETE", agentPath+"/helper/deploy", "")
	p.nothingLeft()
}

// nothingLeft waits until the namespace has no object of a deployment.
func (p place) nothingLeft() {
	p.t.Helper()
	ours := meta.ListOptions{LabelSelector: "agenthost.dev/key"}
	require.Eventually(p.t, func() bool {
		apps, err := p.AppsV1().Deployments(p.namespace).List(p.t.Context(), ours)
		require.NoError(p.t, err)
		sets, err := p.AppsV1().ReplicaSets(p.namespace).List(p.t.Context(), ours)
		require.NoError(p.t, err)
		pods, err := p.CoreV1().Pods(p.namespace).List(p.t.Context(), ours)
		require.NoError(p.t, err)
		secrets, err := p.CoreV1().Secrets(p.namespace).List(p.t.Context(), ours)
		require.NoError(p.t, err)
		services, err := p.CoreV1().Services(p.namespace).List(p.t.Context(), ours)
		require.NoError(p.t, err)
		policies, err := p.NetworkingV1().NetworkPolicies(p.namespace).List(p.t.Context(), ours)
		require.NoError(p.t, err)
		volumes, err := p.CoreV1().PersistentVolumeClaims(p.namespace).List(p.t.Context(), ours)
		require.NoError(p.t, err)
		n := len(apps.Items) + len(sets.Items) + len(pods.Items) + len(secrets.Items) + len(services.Items)
		return n+len(policies.Items)+len(volumes.Items) == 0
	}, patience, 100*time.Millisecond)
}
