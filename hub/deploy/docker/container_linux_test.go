//go:build docker

package docker_test

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	containers "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy/docker"
)

const hubImage = "agenthost-hub:test"

// startContained starts a hub in a container that has the socket of the engine, and a host name
// that is not its id.
func startContained(t *testing.T) (h *hub, id string) {
	t.Helper()
	binary, err := hubBinary()
	require.NoError(t, err)
	require.NoError(t, importFiles(hubImage, map[string]string{"/usr/local/bin/hub": binary, "/tmp/.placed": "/dev/null"}, `ENTRYPOINT ["/usr/local/bin/hub"]`))
	e := engine(t)
	own, err := e.NetworkCreate(t.Context(), "of-the-hub", client.NetworkCreateOptions{
		Driver: "bridge", IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: netip.MustParsePrefix("10.251.0.0/24")}}},
	})
	require.NoError(t, err)
	port := network.MustParsePort("8080/tcp")
	created, err := e.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Name: "the-hub",
		Config: &containers.Config{
			Image: hubImage, Hostname: "hub", ExposedPorts: network.PortSet{port: {}},
			Env: []string{"HUB_ADDR=0.0.0.0:8080", "HUB_DATA_DIR=/data", "DEPLOYER=docker", "DEPLOYER_IMAGE=" + runtimeImage, "DEPLOYER_CPU=500m"},
		},
		HostConfig: &containers.HostConfig{
			NetworkMode: containers.NetworkMode(own.ID), Binds: []string{socket[len("unix://"):] + ":/var/run/docker.sock"},
			PortBindings: network.PortMap{port: {{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: "18080"}}},
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := engine(t).ContainerRemove(ctx, created.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		require.NoError(t, err)
		_, err = engine(t).NetworkRemove(ctx, own.ID, client.NetworkRemoveOptions{})
		require.NoError(t, err)
	})
	h = newHub(t)
	h.url = "http://127.0.0.1:18080"
	h.startContainer(created.ID)
	return h, created.ID
}

func (h *hub) startContainer(id string) {
	h.t.Helper()
	e := engine(h.t)
	_, err := e.ContainerStart(h.t.Context(), id, client.ContainerStartOptions{})
	require.NoError(h.t, err)
	require.Eventually(h.t, func() bool { return healthy(h.url) }, patience, 20*time.Millisecond)
	logs, err := e.ContainerLogs(h.t.Context(), id, client.ContainerLogsOptions{ShowStdout: true, Follow: true})
	require.NoError(h.t, err)
	r, w := io.Pipe()
	go func() {
		_, err := stdcopy.StdCopy(w, io.Discard, logs)
		w.CloseWithError(err)
	}()
	h.t.Cleanup(func() { _ = logs.Close() })
	h.signIn(r)
}

// addresses returns the addresses of a container by network.
func addresses(t *testing.T, id string) map[string]string {
	t.Helper()
	found, err := engine(t).ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
	require.NoError(t, err)
	all := map[string]string{}
	for _, n := range found.Container.NetworkSettings.Networks {
		all[n.NetworkID] = n.IPAddress.String()
	}
	return all
}

// A hub in a container finds itself, deploys and chats. Of the hub, a runtime reaches the port, in
// the network of its tenant only. The hub is killed, and in the end no network is left.
func TestHubInAContainer(t *testing.T) {
	t.Parallel()
	h, id := startContained(t)
	h.call("POST", agentPath, `{"name": "`+h.agent+`", "providerId": "demo", "model": "demo"}`)
	h.call("POST", h.deployment(), "")
	h.reach("running", "docker")
	session, _ := h.call("POST", "/api/v1/agents/"+h.agent+"/chat/sessions", "{}")["id"].(string)
	h.chat(session, "from-a-container")

	other := start(t, open(t, func(c *docker.Config) { c.HubContainer = id }), "umbrella")
	mine := container(t, "default-"+h.agent, "1")
	hubs, mines, others := addresses(t, id), addresses(t, mine), addresses(t, other.container)
	require.Len(t, hubs, 3)
	require.Len(t, mines, 1)
	require.Len(t, others, 1)
	for network, addr := range mines {
		require.False(t, connects(t, other.container, addr+":8080"), "the runtime of another tenant")
		require.Contains(t, hubs, network)
	}
	for network, addr := range hubs {
		_, shared := mines[network]
		if shared {
			reaches(t, mine, addr+":8080", "the hub, which requires a token")
		} else {
			// The engine replaces its rules when it creates a network, as other tests do: they are absent
			// for an instant.
			require.Eventually(t, func() bool { return !connects(t, mine, addr+":8080") }, patience, time.Second)
		}
		require.False(t, connects(t, mine, addr+":2375"))
	}
	for _, addr := range others {
		require.False(t, connects(t, mine, addr+":8080"), "the runtime of another tenant")
	}
	res, err := http.Get(h.url + "/api/v1/admin/agents")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusUnauthorized, res.StatusCode)

	_, err = engine(t).ContainerKill(t.Context(), id, client.ContainerKillOptions{Signal: "SIGKILL"})
	require.NoError(t, err)
	h.startContainer(id)
	h.reach("running", "docker")
	h.chat(session, "after-a-kill")
	require.Equal(t, mine, container(t, "default-"+h.agent, "1"))

	h.send("DELETE", h.deployment(), "")
	h.reach("not_deployed", "docker")
	require.Eventually(t, func() bool { return len(addresses(t, id)) == 2 }, patience, 20*time.Millisecond, "the hub has left the network")
	left(t.Context(), t, "default-"+h.agent)
}
