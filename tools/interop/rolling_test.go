package interop_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRollingRestartBehindProxies restarts two hubs one after the other behind each proxy. No read
// and no message fails.
func TestRollingRestartBehindProxies(t *testing.T) {
	path, err := buildHub()
	require.NoError(t, err)
	for file, command := range map[string]func(dir, config, port string) (string, []string){
		"hubs-haproxy.cfg": proxies["haproxy.cfg"], "hubs-Caddyfile": proxies["Caddyfile"], "hubs-nginx.conf": nginx,
	} {
		t.Run(file, func(t *testing.T) {
			dir := t.TempDir()
			t.Cleanup(func() { killRuntimes(path) })
			ports := []string{freePort(t), freePort(t)}
			begin := func(port string) *program {
				p := start(t, dir, []string{"HUB_ADDR=127.0.0.1:" + port, "HUB_DATA_DIR=" + dir, "HUB_SETUP_TOKEN=interop-setup-token",
					"HUB_TRUSTED_PROXIES=127.0.0.1"}, path)
				awaitHTTP(t, "http://127.0.0.1:"+port+"/health/ready")
				return p
			}
			hubs := []*program{begin(ports[0]), begin(ports[1])}
			h := &hub{url: "http://127.0.0.1:" + ports[0]}
			var login struct {
				Token string `json:"access_token"`
			}
			h.send(t, http.StatusCreated, "POST", "/auth/setup", `{"username":"admin","password":"correct horse battery","setup_token":"interop-setup-token"}`, &login)
			h.token = login.Token
			h.send(t, http.StatusCreated, "POST", "/api/v1/admin/agents", `{"name":"helper","providerId":"demo","model":"demo"}`, nil)
			h.send(t, http.StatusAccepted, "POST", "/api/v1/admin/agents/helper/deploy", "", nil)
			require.Eventually(t, func() bool { return h.deployment(t, "helper").State == "running" }, patience, 20*time.Millisecond)

			text, err := os.ReadFile(filepath.Join("..", "..", "examples", "proxy", file))
			require.NoError(t, err)
			url := configured(t, file, strings.NewReplacer("127.0.0.1:8080", "127.0.0.1:"+ports[0], "127.0.0.1:8090", "127.0.0.1:"+ports[1]).Replace(string(text)), command, h.url)

			var mu sync.Mutex // guards counts and the first text of each
			counts := map[string]int{}
			var running sync.WaitGroup
			var stopped atomic.Bool
			for range 4 {
				var session struct {
					ID string `json:"id"`
				}
				h.send(t, http.StatusCreated, "POST", "/api/v1/agents/helper/chat/sessions", `{}`, &session)
				messages := url + "/api/v1/agents/helper/chat/sessions/" + session.ID + "/messages"
				running.Go(func() {
					pace := time.NewTicker(100 * time.Millisecond) // less than the limit of a user
					defer pace.Stop()
					for !stopped.Load() {
						<-pace.C
						for _, req := range []*http.Request{h.request(t, "POST", messages, `{"message":"hello"}`), h.request(t, "GET", messages, "")} {
							outcome := req.Method + " "
							resp, err := http.DefaultClient.Do(req)
							if err != nil {
								outcome += err.Error()
							} else {
								body, err := io.ReadAll(resp.Body)
								_ = resp.Body.Close()
								outcome += fmt.Sprint(resp.StatusCode)
								switch {
								case err != nil:
									outcome += " " + err.Error()
								case resp.StatusCode != http.StatusOK:
									outcome += " " + string(body[:min(len(body), 40)])
								case req.Method == http.MethodPost && !strings.Contains(string(body), `"status":"completed"`):
									outcome += " incomplete"
								}
							}
							mu.Lock()
							counts[outcome]++
							mu.Unlock()
						}
					}
				})
			}
			chats := func() int {
				mu.Lock()
				defer mu.Unlock()
				return counts["POST 200"]
			}
			for i := range 4 { // two rounds
				before := chats()
				require.Eventually(t, func() bool { return chats() > before+10 }, patience, time.Millisecond)
				begun := time.Now()
				hubs[i%2].stop(t, syscall.SIGTERM)
				t.Log("a hub has ended after", time.Since(begun))
				hubs[i%2] = begin(ports[i%2])
			}
			stopped.Store(true)
			running.Wait()
			t.Log(file, counts)
			for outcome, n := range counts {
				require.True(t, outcome == "GET 200" || outcome == "POST 200", "%d times %s", n, outcome)
			}
		})
	}
}
