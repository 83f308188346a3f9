package interop_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// built is the directory of the hub's binary.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "interop"); err != nil {
		panic(err)
	}
	if err := os.Chmod(built, 0o755); err != nil { // agents have another user
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(code)
}

var buildHub = sync.OnceValues(func() (string, error) { return build("hub", "./cmd/hub") })

// build builds a program of the repository, and returns its path.
func build(name, directory string) (string, error) {
	path := filepath.Join(built, name)
	cmd := exec.Command("go", "build", "-o", path, directory)
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "GOWORK=") // go.work
	cmd.Stderr = os.Stderr
	return path, cmd.Run()
}

// hub is a hub with an admin. It trusts proxies on 127.0.0.1.
type hub struct {
	url   string
	token string
}

// openHub starts the hub's binary.
func openHub(t *testing.T) *hub {
	t.Helper()
	path, err := buildHub()
	require.NoError(t, err)
	dir, port := t.TempDir(), freePort(t)
	t.Cleanup(func() { killRuntimes(path) })
	start(t, dir, []string{"HUB_ADDR=127.0.0.1:" + port, "HUB_DATA_DIR=" + dir, "HUB_SETUP_TOKEN=interop-setup-token",
		"HUB_TRUSTED_PROXIES=127.0.0.1"}, path)
	h := &hub{url: "http://127.0.0.1:" + port}
	awaitHTTP(t, h.url+"/health")
	var login struct {
		Token string `json:"access_token"`
	}
	h.send(t, http.StatusCreated, "POST", "/auth/setup", `{"username":"admin","password":"correct horse battery","setup_token":"interop-setup-token"}`, &login)
	h.token = login.Token
	return h
}

// killRuntimes ends the runtimes that a hub has started. They continue without it.
func killRuntimes(path string) {
	executables, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, exe := range executables {
		if target, err := os.Readlink(exe); err == nil && strings.TrimSuffix(target, " (deleted)") == path {
			if process, err := os.FindProcess(atoi(filepath.Base(filepath.Dir(exe)))); err == nil {
				_ = process.Signal(syscall.SIGKILL)
			}
		}
	}
}

func atoi(digits string) (n int) {
	for _, d := range digits {
		n = 10*n + int(d-'0')
	}
	return n
}

// send sends a request to the hub and decodes the response, which must have that status.
func (h *hub) send(t *testing.T, status int, method, path, body string, into any) {
	t.Helper()
	resp, err := http.DefaultClient.Do(h.request(t, method, h.url+path, body))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, status, resp.StatusCode, "%s %s: %s", method, path, text)
	if into != nil {
		require.NoError(t, json.Unmarshal(text, into))
	}
}

// request returns a request of the admin.
func (h *hub) request(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+h.token)
	return req
}

// deploy creates and deploys an agent whose model is upstream, and returns the path of the messages
// of a new chat.
func (h *hub) deploy(t *testing.T, name, upstream string) (messages string) {
	t.Helper()
	const agents, chats = "/api/v1/admin/agents", "/api/v1/agents/"
	var provider, session struct {
		ID string `json:"id"`
	}
	h.send(t, http.StatusCreated, "POST", "/api/v1/admin/providers",
		`{"name":"`+name+`","protocol":"anthropic","baseUrl":"`+upstream+`","apiKey":"k","models":[{"id":"m"}]}`, &provider)
	h.send(t, http.StatusCreated, "POST", agents, `{"name":"`+name+`","providerId":"`+provider.ID+`","model":"m"}`, nil)
	h.send(t, http.StatusAccepted, "POST", agents+"/"+name+"/deploy", "", nil)
	require.Eventually(t, func() bool { return h.deployment(t, name).State == "running" }, patience, 20*time.Millisecond)
	h.send(t, http.StatusCreated, "POST", chats+name+"/chat/sessions", `{}`, &session)
	return chats + name + "/chat/sessions/" + session.ID + "/messages"
}

type deployment struct {
	State string `json:"state"`
	Key   string `json:"apiKey"`
}

func (h *hub) deployment(t *testing.T, agent string) (d deployment) {
	t.Helper()
	h.send(t, http.StatusOK, "GET", "/api/v1/admin/agents/"+agent+"/deploy", "", &d)
	return d
}

// uploadTool creates a tool through a proxy at url, with a comment in its source, and returns the
// path of the source.
func (h *hub) uploadTool(t *testing.T, url, name, comment string) string {
	t.Helper()
	source := fmt.Sprintf("export default {name: %q, description: \"d\", inputSchema: {type: \"object\"}, call() { return \"\" }}\n//%s\n", name, comment)
	form := "--x\r\nContent-Disposition: form-data; name=file; filename=\"a.js\"\r\n\r\n" + source + "\r\n--x--\r\n"
	req := h.request(t, "POST", url+"/api/v1/admin/tools", form)
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	require.Equal(t, http.StatusCreated, do(t, req).StatusCode)
	return fmt.Sprintf("/artifacts/tools/%x/a.js", sha256.Sum256([]byte(source)))
}
