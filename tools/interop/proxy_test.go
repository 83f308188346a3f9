package interop_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

// proxies are the configurations of examples/proxy with the programs that they belong to.
var proxies = map[string]func(dir, config, port string) (program string, args []string){
	"nginx.conf": func(dir, config, _ string) (string, []string) {
		return "nginx", []string{"-c", config, "-p", dir, "-e", "stderr", "-g",
			"daemon off; pid " + filepath.Join(dir, "nginx.pid") + ";"}
	},
	"haproxy.cfg": func(_, config, _ string) (string, []string) { return "haproxy", []string{"-db", "-f", config} },
	"Caddyfile": func(_, config, _ string) (string, []string) {
		return "caddy", []string{"run", "--config", config, "--adapter", "caddyfile"}
	},
	"default.vcl": func(dir, config, port string) (string, []string) {
		return "varnishd", []string{"-j", "none", "-F", "-n", filepath.Join(dir, "work"), "-a", "127.0.0.1:" + port, "-f", config}
	},
}

// TestProxies: through each proxy an event arrives when it is sent, a disconnect cancels the run, a
// blocking run is cancelled too, and no response is served without a key.
func TestProxies(t *testing.T) {
	for file, command := range proxies {
		t.Run(file, func(t *testing.T) {
			more := make(chan struct{})
			hang := modeltest.Stream(modeltest.Text("first "), modeltest.Hang())
			up := modeltest.Start(t, modeltest.Anthropic,
				modeltest.Stream(modeltest.Text("first "), modeltest.Gate(more), modeltest.Text("second")), hang, hang)
			url := proxied(t, file, command, serve(t, agent.Agent{Model: "m", Provider: agent.Provider{
				Protocol: agent.ProtocolAnthropic, BaseURL: agent.Secret(up.URL), APIKey: "k",
			}}))

			t.Run("an event arrives when it is sent", func(t *testing.T) {
				body := begin(t, t.Context(), url, "text/event-stream")
				lines := bufio.NewScanner(body)
				readTo(t, lines, `"first "`)
				close(more) // only now does upstream continue
				readTo(t, lines, "event: done")
			})
			t.Run("a disconnect cancels the run", func(t *testing.T) {
				ctx, disconnect := context.WithCancel(t.Context())
				defer disconnect()
				readTo(t, bufio.NewScanner(begin(t, ctx, url, "text/event-stream")), `"first "`)
				disconnect()
				_, early := up.Await(t, 2).End()
				require.True(t, early)
			})
			t.Run("a disconnect cancels a blocking run", func(t *testing.T) {
				ctx, disconnect := context.WithCancel(t.Context())
				defer disconnect()
				failed := make(chan error, 1)
				go func() {
					resp, err := http.DefaultClient.Do(request(ctx, url, "application/json"))
					if err == nil {
						_ = resp.Body.Close()
					}
					failed <- err
				}()
				at := up.Await(t, 3)
				disconnect()
				require.Error(t, <-failed)
				_, early := at.End()
				require.True(t, early)
			})
			t.Run("no response without a key", func(t *testing.T) {
				for _, withKey := range []bool{true, false} {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/agents/bot", nil)
					require.NoError(t, err)
					if withKey {
						req.Header.Set("X-Api-Key", key)
					}
					resp, err := http.DefaultClient.Do(req)
					require.NoError(t, err)
					_ = resp.Body.Close()
					require.Equal(t, withKey, resp.StatusCode == http.StatusOK, resp.Status)
				}
			})
		})
	}
}

// proxied starts a proxy in front of a runtime and returns the proxy's address.
func proxied(t *testing.T, file string, command func(dir, config, port string) (string, []string), runtime string) string {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "proxy", file))
	require.NoError(t, err)
	target := strings.TrimPrefix(runtime, "http://127.0.0.1:")
	config := strings.NewReplacer("127.0.0.1:8081", "127.0.0.1:"+port, "127.0.0.1:3000", "127.0.0.1:"+target,
		`.port = "3000"`, `.port = "`+target+`"`).Replace(string(text))
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

func request(ctx context.Context, url, accept string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/agents/bot/runs", strings.NewReader(`{"message":"hello"}`))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("X-Api-Key", key)
	return req
}

func begin(t *testing.T, ctx context.Context, url, accept string) io.Reader {
	t.Helper()
	resp, err := http.DefaultClient.Do(request(ctx, url, accept))
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	return resp.Body
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
