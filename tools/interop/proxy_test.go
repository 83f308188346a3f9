package interop_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// proxies are the configurations of examples/proxy with the programs that they belong to.
var proxies = map[string]func(dir, config, port string) (program string, args []string){
	"nginx.conf":  nginx,
	"haproxy.cfg": func(_, config, _ string) (string, []string) { return "haproxy", []string{"-db", "-f", config} },
	"Caddyfile": func(_, config, _ string) (string, []string) {
		return "caddy", []string{"run", "--config", config, "--adapter", "caddyfile"}
	},
	"default.vcl": func(dir, config, port string) (string, []string) {
		return "varnishd", append(varnish(dir, port), "-p", "pipe_timeout=1860", "-f", config)
	},
}

func nginx(dir, config, _ string) (string, []string) {
	return "nginx", []string{"-c", config, "-p", dir, "-e", "stderr", "-g", "daemon off; pid " + filepath.Join(dir, "nginx.pid") + ";"}
}

func varnish(dir, port string) []string {
	return []string{"-j", "none", "-F", "-n", filepath.Join(dir, "work"), "-a", "127.0.0.1:" + port}
}

// events is the number of events in a stream, each of which is sent when the previous one has
// arrived.
const events = 20

// promptly is less than the interval of the comments in a stream, whose failure would cancel the
// run too.
const promptly = 10 * time.Second

// stepwise responds with texts, each of which waits for a value of next, and then hangs twice.
func stepwise(t *testing.T, next <-chan struct{}) *modeltest.Upstream {
	t.Helper()
	var steps []modeltest.Step
	for i := range events {
		steps = append(steps, modeltest.Gate(next), modeltest.Text(fmt.Sprintf("text %d ", i)))
	}
	hang := modeltest.Stream(modeltest.Text("text 0 "), modeltest.Hang())
	return modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(steps...), hang, hang)
}

// TestProxies: through each proxy an event arrives when it is sent, a disconnect cancels the run, a
// blocking run is cancelled too, no response is served without a key, and a page of the same origin
// may send requests.
func TestProxies(t *testing.T) {
	for file, command := range proxies {
		t.Run(file, func(t *testing.T) {
			next := make(chan struct{})
			up := stepwise(t, next)
			url := behind(t, file, command, serve(t, agent.Agent{Model: "m", Provider: agent.Provider{
				Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "k",
			}}))

			t.Run("an event arrives when it is sent", func(t *testing.T) {
				requireStreams(t, up, runRequest(t, url, "text/event-stream"), next)
			})
			t.Run("a disconnect cancels the run", func(t *testing.T) {
				requireCancels(t, up, 2, runRequest(t, url, "text/event-stream"))
			})
			t.Run("a disconnect cancels a blocking run", func(t *testing.T) {
				requireCancels(t, up, 3, runRequest(t, url, "application/json"))
			})
			t.Run("no response without a key", func(t *testing.T) {
				for _, withKey := range []bool{true, false} {
					req := get(t, url+"/v1/agents/bot")
					if withKey {
						req.Header.Set("X-Api-Key", key)
					}
					require.Equal(t, withKey, do(t, req).StatusCode == http.StatusOK)
				}
			})
			t.Run("pages of the same origin", func(t *testing.T) {
				for origin, status := range map[string]int{url: http.StatusNotFound, "http://evil.example": http.StatusForbidden} {
					req := runRequest(t, url, "")
					req.URL.Path = "/v1/runs/4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3/cancel"
					req.Header.Set("Origin", origin)
					require.Equal(t, status, do(t, req).StatusCode, origin)
				}
			})
		})
	}
}

// TestHubBehindProxies: through each proxy an event of a chat arrives when it is sent, a disconnect
// cancels the answer, the address of the client is recorded and cannot be forged, and large files
// pass.
func TestHubBehindProxies(t *testing.T) {
	h := openHub(t)
	for file, command := range proxies {
		t.Run(file, func(t *testing.T) {
			next := make(chan struct{})
			up := stepwise(t, next)
			name := strings.ToLower(file[:5])
			messages := h.deploy(t, name, up.URL)
			url := behind(t, file, command, h.url)

			t.Run("an event arrives when it is sent", func(t *testing.T) {
				requireStreams(t, up, h.request(t, "POST", url+messages, `{"message":"hello"}`), next)
			})
			t.Run("a disconnect cancels the answer", func(t *testing.T) {
				requireCancels(t, up, 2, h.request(t, "POST", url+messages, `{"message":"hello"}`))
				var list struct {
					Items []struct{ Status, Text string }
				}
				require.Eventually(t, func() bool {
					h.send(t, http.StatusOK, "GET", messages, "", &list)
					last := list.Items[len(list.Items)-1]
					return last.Status == "cancelled" && last.Text == "text 0 "
				}, patience, 20*time.Millisecond)
			})
			t.Run("a disconnect cancels a run of the deployment", func(t *testing.T) {
				req := runRequest(t, url, "application/json")
				req.URL.Path = "/runtime/" + name + "/v1/agents/" + name + "/runs"
				req.Header.Set("X-Api-Key", h.deployment(t, name).Key)
				requireCancels(t, up, 3, req)
			})
			t.Run("address of the client", func(t *testing.T) {
				req := h.request(t, "POST", url+"/api/v1/cli/issue-token", `{"name":"`+name+`"}`)
				req.Header.Set("X-Forwarded-For", "203.0.113.9")
				other := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}}
				resp, err := other.Do(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, http.StatusCreated, resp.StatusCode)
				var log struct {
					Items []struct{ RemoteIP string }
				}
				h.send(t, http.StatusOK, "GET", "/api/v1/admin/audit-logs?action=token.issue", "", &log)
				require.Equal(t, "127.0.0.2", log.Items[0].RemoteIP)
			})
			t.Run("large files", func(t *testing.T) {
				path := h.uploadTool(t, url, name, strings.Repeat("x", 5<<20-200))
				require.Equal(t, http.StatusOK, do(t, get(t, url+path)).StatusCode)
			})
		})
	}
}

// behind starts a proxy of examples/proxy in front of a server and returns the proxy's address.
func behind(t *testing.T, file string, command func(dir, config, port string) (string, []string), server string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "proxy", file))
	require.NoError(t, err)
	return configured(t, file, string(text), command, server)
}

// configured starts a proxy with a configuration that listens on port 8081 and forwards to port
// 3000.
func configured(t *testing.T, file, config string, command func(dir, config, port string) (string, []string), server string) string {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	target := strings.TrimPrefix(server, "http://127.0.0.1:")
	config = strings.NewReplacer("127.0.0.1:8081", "127.0.0.1:"+port, "127.0.0.1:3000", "127.0.0.1:"+target,
		`.port = "3000"`, `.port = "`+target+`"`).Replace(config)
	path := filepath.Join(dir, file)
	require.NoError(t, os.WriteFile(path, []byte(config), 0o644))
	require.NoError(t, os.Chmod(dir, 0o755))
	program, args := command(dir, path, port)
	if _, err := exec.LookPath(program); err != nil {
		program = "/usr/sbin/" + program
	}
	start(t, dir, []string{"HOME=" + dir}, program, args...)
	url := "http://127.0.0.1:" + port
	awaitHTTP(t, url+"/health")
	return url
}

// requireStreams requires that each event of the first request arrives before the model sends the
// next one, without a delay of the proxy.
func requireStreams(t *testing.T, up *modeltest.Upstream, req *http.Request, next chan<- struct{}) {
	t.Helper()
	resp := do(t, req)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	lines := bufio.NewScanner(resp.Body)
	begin := time.Now()
	for i := range events {
		next <- struct{}{}
		readTo(t, lines, fmt.Sprintf(`"text %d "`, i))
	}
	require.Less(t, time.Since(begin), events*50*time.Millisecond)
	readTo(t, lines, "event: done")
	_, early := up.Await(t, 1).End()
	require.False(t, early)
}

// requireCancels requires that a client that disconnects cancels the call of the model, which is
// the nth. Of a stream it first reads an event.
func requireCancels(t *testing.T, up *modeltest.Upstream, n int, req *http.Request) {
	t.Helper()
	ctx, disconnect := context.WithCancel(t.Context())
	defer disconnect()
	responded := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req.WithContext(ctx))
		if err == nil {
			lines := bufio.NewScanner(resp.Body)
			for lines.Scan() && !strings.Contains(lines.Text(), `"text 0 "`) {
			}
			disconnect()
			err = resp.Body.Close()
		}
		responded <- err
	}()
	call := up.Await(t, n)
	if req.Header.Get("Accept") == "application/json" {
		disconnect()
		require.Error(t, <-responded)
	}
	select {
	case <-call.Closed():
	case <-time.After(promptly):
		require.Fail(t, "the run continues")
	}
	_, early := call.End()
	require.True(t, early)
}

func get(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	return req
}

func runRequest(t *testing.T, url, accept string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/agents/bot/runs", strings.NewReader(`{"message":"hello"}`))
	require.NoError(t, err)
	req.Header.Set("Accept", accept)
	req.Header.Set("X-Api-Key", key)
	return req
}

// do sends a request. The response is closed when the test ends.
func do(t *testing.T, req *http.Request) *http.Response {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, _ = io.CopyN(io.Discard, resp.Body, 1<<20) // so that the connection can be reused
		_ = resp.Body.Close()
	})
	return resp
}

func readTo(t *testing.T, lines *bufio.Scanner, want string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), want) {
			return
		}
	}
	require.Fail(t, "the stream ended before "+want, "%v", lines.Err())
}
