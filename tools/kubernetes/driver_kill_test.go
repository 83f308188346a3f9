package kubernetes_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/seed93082962/agenthost/internal/db/pgtest"
	"github.com/seed93082962/agenthost/tools/kubernetes/clustertest"
)

// relay is between a hub and the API server. It does not return the response of one write.
type relay struct {
	url  string
	next http.Handler

	mu      sync.Mutex // guards the fields below
	left    int        // writes until that one, or 0
	reached chan struct{}
	release chan struct{}
}

func newRelay(t *testing.T, c *clustertest.Cluster) *relay {
	t.Helper()
	config := c.Config()
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	next := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	next.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	r := &relay{next: next}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	t.Cleanup(r.resume)
	r.url = s.URL
	return r
}

// kubeconfig returns the path of a file with the address of the relay.
func (r *relay) kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: "` + r.url + `"}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// stopAt makes the n-th write from now on the last one. Its response is not returned.
func (r *relay) stopAt(n int) (reached <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left, r.reached, r.release = n, make(chan struct{}), make(chan struct{})
	return r.reached
}

// resume forwards all requests again.
func (r *relay) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = 0
	if r.release != nil {
		close(r.release)
		r.release = nil
	}
}

func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method == http.MethodGet {
		r.next.ServeHTTP(w, req)
		return
	}
	r.mu.Lock()
	last := r.left == 1
	r.left--
	reached, release := r.reached, r.release
	r.mu.Unlock()
	if !last {
		r.next.ServeHTTP(w, req)
		return
	}
	r.next.ServeHTTP(httptest.NewRecorder(), req)
	close(reached)
	<-release
}

// A hub is killed after each write of a deploy and of a delete in turn. The next one completes it:
// no revision has two pods, and nothing is left at the end.
func TestHubIsKilledAfterEachWrite(t *testing.T) {
	p := newPlace(t)
	r := newRelay(t, p.cluster)
	h := &hub{t: t, place: p, data: t.TempDir()}
	setting := "KUBECONFIG=" + r.kubeconfig(t)
	h.start("kubernetes", setting)
	defer func() { h.stop(syscall.SIGKILL) }()
	h.call("POST", agentPath, `{"name": "helper", "providerId": "demo", "model": "demo"}`)

	// until kills the hub at the n-th write after the call, unless done is reached before.
	until := func(n int, call func(), done func() bool) (killed bool) {
		t.Helper()
		reached := r.stopAt(n)
		call()
		require.Eventually(t, func() bool {
			select {
			case <-reached:
				killed = true
			default:
			}
			return killed || done()
		}, 2*patience, 20*time.Millisecond)
		if killed {
			h.stop(syscall.SIGKILL)
		}
		r.resume()
		if killed {
			h.start("kubernetes", setting)
		}
		return killed
	}
	settled := func() bool {
		all := p.pods(key, "")
		_, status := h.send("GET", agentPath+"/helper/deploy", "")
		return len(all) == 1 && strings.Contains(status, `"state":"running"`) &&
			strings.Contains(status, `"servingRevision":`+all[0].Labels["agenthost.dev/revision"]+",") &&
			strings.Contains(status, `"revision":`+all[0].Labels["agenthost.dev/revision"]+",")
	}
	await := func(what string, n int) {
		t.Helper()
		require.Eventually(t, settled, 2*patience, 50*time.Millisecond, "%s %d", what, n)
	}
	writes := 0
	for n := 1; ; n++ {
		killed := until(n, func() { h.call("POST", agentPath+"/helper/deploy", `{"force": true}`) }, settled)
		await("deploy", n)
		if !killed {
			break
		}
		writes = n
	}
	require.Greater(t, writes, 8)
	writes = 0
	for n := 1; ; n++ {
		killed := until(n, func() { h.call("DELETE", agentPath+"/helper/deploy", "") }, func() bool {
			_, status := h.send("GET", agentPath+"/helper/deploy", "")
			return strings.Contains(status, "not_deployed")
		})
		p.nothingLeft()
		if !killed {
			break
		}
		writes = n
		require.Eventually(t, func() bool {
			code, _ := h.send("POST", agentPath+"/helper/deploy", "")
			return code < 300
		}, patience, 50*time.Millisecond)
		await("deploy after delete", n)
	}
	require.Greater(t, writes, 2)
}

// Two hubs with one database are frozen in turn. The other one takes over, and a hub that continues
// changes nothing: there is one pod, of the last revision.
func TestTwoHubsAreFrozen(t *testing.T) {
	p := newPlace(t)
	settings := []string{
		"DATABASE_URL=" + pgtest.URL(t), "PROVIDER_ENCRYPTION_KEY=MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
		"BLOB_URL=file://" + t.TempDir(),
	}
	one, two := &hub{t: t, place: p, data: t.TempDir()}, &hub{t: t, place: p, data: t.TempDir()}
	one.start("kubernetes", settings...)
	defer func() { one.stop(syscall.SIGKILL) }()
	two.token = one.token
	two.start("kubernetes", settings...)
	defer func() { two.stop(syscall.SIGKILL) }()
	one.call("POST", agentPath, `{"name": "helper", "providerId": "demo", "model": "demo"}`)
	one.call("POST", agentPath+"/helper/deploy", "")
	one.reach(`"state":"running"`)
	for i, hubs := range [][2]*hub{{one, two}, {two, one}, {one, two}} {
		frozen, other := hubs[0], hubs[1]
		revision := strconv.Itoa(i + 2)
		require.NoError(t, frozen.cmd.Process.Signal(syscall.SIGSTOP))
		other.call("POST", agentPath+"/helper/deploy", `{"force": true}`)
		other.reach(`"servingRevision":` + revision + ",")
		require.NoError(t, frozen.cmd.Process.Signal(syscall.SIGCONT))
		frozen.reach(`"servingRevision":` + revision + ",")
		require.Eventually(t, func() bool {
			return len(p.pods(key, "")) == 1 && len(p.pods(key, revision)) == 1
		}, patience, 50*time.Millisecond, fmt.Sprint(i))
		other.reach(`"state":"running"`)
	}
	two.call("DELETE", agentPath+"/helper/deploy", "")
	p.nothingLeft()
}
