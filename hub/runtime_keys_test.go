package hub_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub"
	"github.com/seed93082962/agenthost/hub/deploy/deploytest"
)

// deployable serves a hub with a deployer and the agents.
func deployable(t *testing.T, url string, agents ...string) (s *server, admin string) {
	t.Helper()
	return deployableBy(t, url, func(*hub.Config) {}, agents...)
}

func deployableBy(t *testing.T, url string, change func(*hub.Config), agents ...string) (s *server, admin string) {
	t.Helper()
	driver := &deploytest.Memory{}
	t.Cleanup(driver.Close)
	s = open(t, url, func(cfg *hub.Config) {
		cfg.Deployer = driver
		change(cfg)
	})
	admin = s.setUp()
	for _, name := range agents {
		s.call("POST", "/api/v1/admin/agents", admin, `{"name":"`+name+`","providerId":"demo","model":"demo"}`).want(http.StatusCreated)
	}
	return s, admin
}

// deploy deploys an agent and returns the key of its runtime.
func (s *server) deploy(admin, agent string) string {
	s.t.Helper()
	path := "/api/v1/admin/agents/" + agent + "/deploy"
	s.call("POST", path, admin, "").want(http.StatusAccepted)
	require.Eventually(s.t, func() bool { return s.call("GET", path, admin, "").want(http.StatusOK)["state"] == "running" }, time.Minute, 20*time.Millisecond)
	return s.call("GET", path, admin, "").want(http.StatusOK)["apiKey"].(string)
}

func (s *server) runtime(path, key string) (status int, header http.Header) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/runtime/"+path, http.NoBody)
	require.NoError(s.t, err)
	req.Header.Set("X-Api-Key", key)
	res, err := s.client.Do(req)
	require.NoError(s.t, err)
	require.NoError(s.t, res.Body.Close())
	return res.StatusCode, res.Header
}

func TestAgentsUnderRuntimeCannotBeFound(t *testing.T) {
	url := sqlite(t)
	s, admin := deployable(t, url, "running", "stopped", "idle")
	keys := []string{s.deploy(admin, "running"), s.deploy(admin, "stopped")}
	s.call("POST", "/api/v1/admin/agents/stopped/deploy/stop", admin, "").want(http.StatusAccepted)
	status, _ := s.runtime("running/v1/agents", keys[0])
	require.Equal(t, http.StatusOK, status)
	status, _ = s.runtime("stopped/v1/agents", keys[1])
	require.Equal(t, http.StatusServiceUnavailable, status)
	for _, key := range []string{"", "x", "rt_" + strings.Repeat("0", 48)} {
		for _, name := range []string{"running", "stopped", "idle", "unknown", "Running", "running%20"} {
			status, _ := s.runtime(name+"/health", key)
			require.Equal(t, http.StatusUnauthorized, status, name)
		}
	}
	status, _ = s.runtime("running/health", keys[1])
	require.Equal(t, http.StatusUnauthorized, status, "the key of another agent")
}

// Several hundred names of 32 KiB leave no memory behind, with and without a key.
func TestNamesUnderRuntimeAreNotStored(t *testing.T) {
	s, admin := deployable(t, sqlite(t), "running")
	key := s.deploy(admin, "running")
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	send := func(n int) {
		for i := range n {
			random := fmt.Sprintf("rt_%048x", i)
			s.runtime(fmt.Sprintf("%s%d/health", strings.Repeat("x", 32<<10), i), random)
			s.runtime(fmt.Sprintf("x%d/health", i), random)
			s.runtime(fmt.Sprintf("%s%d/health", strings.Repeat("x", 32<<10), i), key)
		}
	}
	send(10)
	before := memory()
	send(300)
	require.Less(t, memory(), before+4<<20+uint64(s.log.Len()))
}

func TestKeysThatARemovedUserHasReadAreReplaced(t *testing.T) {
	url := sqlite(t)
	s, admin := deployable(t, url, "first", "second")
	first, second := s.deploy(admin, "first"), s.deploy(admin, "second")
	const deployed = "/api/v1/admin/agents/%s/deploy"
	for name, remove := range map[string]func(id string){
		"ada": func(id string) { s.call("DELETE", "/api/v1/admin/users/"+id, admin, "").want(http.StatusNoContent) },
		"bob": func(id string) {
			s.call("PATCH", "/api/v1/admin/users/"+id, admin, `{"status":"disabled"}`).want(http.StatusOK)
		},
	} {
		member := s.join(admin, "member", name)
		require.Equal(t, first, s.call("GET", fmt.Sprintf(deployed, "first"), member, "").want(http.StatusOK)["apiKey"])
		remove(s.call("GET", "/auth/userinfo", member, "").want(http.StatusOK)["id"].(string))
		require.Eventually(t, func() bool {
			former := first
			next := s.call("GET", fmt.Sprintf(deployed, "first"), admin, "").want(http.StatusOK)["apiKey"].(string)
			if next == former {
				return false
			}
			first = next
			status, _ := s.runtime("first/v1/agents", former)
			require.Equal(t, http.StatusUnauthorized, status)
			status, _ = s.runtime("first/v1/agents", next)
			require.Equal(t, http.StatusOK, status)
			return true
		}, time.Minute, 5*time.Millisecond)
	}
	require.Equal(t, second, s.call("GET", fmt.Sprintf(deployed, "second"), admin, "").want(http.StatusOK)["apiKey"], "neither has read it")
}

// An admin who becomes a member may not read keys any more, if members may not.
func TestKeysThatADemotedAdminHasReadAreReplaced(t *testing.T) {
	url := sqlite(t)
	s, admin := deployableBy(t, url, func(cfg *hub.Config) { cfg.HideRuntimeKeys = true }, "first")
	first := s.deploy(admin, "first")
	const deployed = "/api/v1/admin/agents/first/deploy"
	eve := s.join(admin, "admin", "eve")
	require.Equal(t, first, s.call("GET", deployed, eve, "").want(http.StatusOK)["apiKey"])
	id := s.call("GET", "/auth/userinfo", eve, "").want(http.StatusOK)["id"].(string)
	s.call("PATCH", "/api/v1/admin/users/"+id, admin, `{"role":"member"}`).want(http.StatusOK)
	require.Nil(t, s.call("GET", deployed, eve, "").want(http.StatusOK)["apiKey"])
	require.Eventually(t, func() bool {
		return s.call("GET", deployed, admin, "").want(http.StatusOK)["apiKey"] != first
	}, time.Minute, 20*time.Millisecond)
	status, _ := s.runtime("first/v1/agents", first)
	require.Equal(t, http.StatusUnauthorized, status)
}
