//go:build docker

package docker_test

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

// gate stops a hub at a call of the engine.
type gate struct {
	mu      sync.Mutex // guards the fields below
	call    *regexp.Regexp
	kind    fault
	reached chan struct{}
}

func (g *gate) close(call string, kind fault) (reached chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.call, g.kind, g.reached = regexp.MustCompile(call), kind, make(chan struct{})
	return g.reached
}

func (g *gate) decide(r *http.Request) fault {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.call == nil || !g.call.MatchString(r.Method+" "+r.URL.String()) {
		return none
	}
	g.call = nil
	close(g.reached)
	return g.kind
}

// list returns the containers of the agent that run.
func (h *hub) list() (ids []string) {
	h.t.Helper()
	list, err := engine(h.t).ContainerList(h.t.Context(), client.ContainerListOptions{Filters: client.Filters{}.Add("label", "agenthost.key=default-"+h.agent)})
	require.NoError(h.t, err)
	for _, c := range list.Items {
		ids = append(ids, c.ID)
	}
	return ids
}

// serves waits until a revision serves, in one container.
func (h *hub) serves(revision int) {
	h.t.Helper()
	require.Eventually(h.t, func() bool {
		s := h.call("GET", h.deployment(), "")
		return s["state"] == "running" && s["servingRevision"] == float64(revision) && len(h.list()) == 1
	}, patience, 50*time.Millisecond)
}

// A hub is killed at a call of the engine in each phase of a deployment, before or after the engine
// has done it. The next hub completes the phase. Nothing is doubled, and in the end nothing is
// left.
func TestHubIsKilledInEachPhase(t *testing.T) {
	t.Parallel()
	var g gate
	h := newHub(t)
	h.env = []string{"DOCKER_HOST=" + startProxy(t, g.decide)}
	h.start("docker")
	defer func() { h.stop(syscall.SIGTERM) }()
	h.call("POST", agentPath, `{"name": "`+h.agent+`", "providerId": "demo", "model": "demo"}`)
	killedAt := func(call string, kind fault, method, path, body string) {
		t.Helper()
		reached := g.close(call, kind)
		h.send(method, path, body)
		select {
		case <-reached:
		case <-time.After(patience):
			require.Fail(t, "the call was not made", call)
		}
		h.stop(syscall.SIGKILL)
		h.start("docker")
	}
	create := `^POST \S+/containers/create\?name=agenthost-default-` + h.agent + `\.\S+\.\d+$`
	killedAt(create, hangsAfter, "POST", h.deployment(), "") // deploying
	h.serves(1)
	killedAt(`^POST \S+/start$`, hangsAfter, "POST", h.deployment(), `{"force": true}`) // a rollout starts
	h.serves(2)
	killedAt(create, hangs, "POST", h.deployment(), `{"force": true}`) // a rollout
	h.serves(3)

	running := h.list()
	h.stop(syscall.SIGKILL)
	h.start("docker")
	h.reach("running", "docker")
	require.Equal(t, running, h.list())

	killedAt(`^POST \S+/kill\?`, hangs, "POST", h.deployment()+"/stop", "") // stopping
	h.reach("stopped", "docker")
	killedAt(`^PUT \S+/archive\?`, hangsAfter, "POST", h.deployment()+"/start", "") // starting
	h.serves(3)
	found, err := engine(t).ContainerInspect(t.Context(), h.list()[0], client.ContainerInspectOptions{})
	require.NoError(t, err)
	killedAt(`^DELETE \S+/volumes/agenthost-`, hangsAfter, "DELETE", h.deployment(), "") // deleting
	h.reach("not_deployed", "docker")
	left(t.Context(), t, "default-"+h.agent)
	require.Eventually(t, func() bool { return len(networks(t, found.Container.Config.Labels["agenthost.owner"])) == 0 }, patience, 100*time.Millisecond)
}

// Two hubs with one database have one container of a deployment, also when one is killed. A hub
// with another database has its own one.
func TestTwoHubsAndAnotherDatabase(t *testing.T) {
	t.Parallel()
	database := "DATABASE_URL=" + pgtest.Start(t).URL(t)
	first := newHub(t)
	first.env = []string{database, "PROVIDER_ENCRYPTION_KEY=" + base64.StdEncoding.EncodeToString(make([]byte, 32))}
	first.start("docker")
	second := &hub{t: t, data: first.data, env: first.env, agent: first.agent, token: first.token}
	second.start("docker")
	defer func() { second.stop(syscall.SIGTERM) }()
	first.call("POST", agentPath, `{"name": "`+first.agent+`", "providerId": "demo", "model": "demo"}`)
	for i, h := range []*hub{first, second, first, second} {
		h.call("POST", h.deployment(), `{"force": true}`)
		second.serves(i + 1)
	}
	other := newHub(t)
	other.agent = first.agent
	other.start("docker")
	defer func() { other.stop(syscall.SIGTERM) }()
	other.call("POST", agentPath, `{"name": "`+other.agent+`", "providerId": "demo", "model": "demo"}`)
	other.call("POST", other.deployment(), "")
	other.reach("running", "docker")
	require.Len(t, second.list(), 2)
	other.send("DELETE", other.deployment(), "")
	other.reach("not_deployed", "docker")
	running := second.list()
	require.Len(t, running, 1)

	first.stop(syscall.SIGKILL)
	second.call("POST", second.deployment(), `{"force": true}`)
	second.serves(5)
	require.NotEqual(t, running, second.list())
	second.send("DELETE", second.deployment(), "")
	second.reach("not_deployed", "docker")
	left(t.Context(), t, "default-"+second.agent)
}
