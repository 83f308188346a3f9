//go:build docker

package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/docker"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// deployed is a running deployment.
type deployed struct {
	ref deploy.Ref
	deploy.Runtime
	container string
}

func request(key, tenant string) deploy.Request {
	return deploy.Request{
		Key: key, Tenant: tenant, AgentID: "helper",
		Config: agent.Agent{Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}, SystemPrompt: "planted-prompt"},
		Env:    map[string]agent.Secret{deploy.EnvAPIKey: "planted-key"},
	}
}

// start deploys the demo agent, and deletes it when the test ends.
func start(t *testing.T, d *docker.Driver, tenant string) *deployed {
	t.Helper()
	x := prepared(t, tenant)
	x.start(t, d, request(x.ref.Key, tenant))
	return x
}

func prepared(t *testing.T, tenant string) *deployed {
	t.Helper()
	key := fmt.Sprintf("%s-helper-%d", tenant, names.Add(1))
	return &deployed{ref: deploy.Ref{Key: key, UID: "first", Owner: "owner of " + key}}
}

func (x *deployed) start(t *testing.T, d *docker.Driver, req deploy.Request) {
	t.Helper()
	key := x.ref.Key
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		require.Eventually(t, func() bool {
			require.NoError(t, d.Delete(ctx, x.ref))
			o, err := d.Observe(ctx, x.ref)
			require.NoError(t, err)
			return !o.Exists
		}, patience, 20*time.Millisecond)
		left(ctx, t, key)
	})
	require.NoError(t, d.Apply(t.Context(), x.ref, 1, req))
	x.Runtime = reach(t, d, x.ref, deploy.Running)
	x.container = container(t, key, "1")
	require.Eventually(t, func() bool { return healthy(x.URL) }, patience, 20*time.Millisecond)
}

// left requires that the engine has nothing of a deployment.
func left(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	label := client.Filters{}.Add("label", "agenthost.key="+key)
	containers, err := engine(t).ContainerList(ctx, client.ContainerListOptions{All: true, Filters: label})
	require.NoError(t, err)
	require.Empty(t, containers.Items)
	volumes, err := engine(t).VolumeList(ctx, client.VolumeListOptions{Filters: label})
	require.NoError(t, err)
	require.Empty(t, volumes.Items)
	require.Eventually(t, func() bool {
		networks, err := engine(t).NetworkList(ctx, client.NetworkListOptions{Filters: client.Filters{}.Add("label", "agenthost.owner=owner of "+key)})
		require.NoError(t, err)
		return len(networks.Items) == 0
	}, patience, 20*time.Millisecond)
}

// reach waits for a phase of revision 1.
func reach(t *testing.T, d *docker.Driver, ref deploy.Ref, phase deploy.Phase) (r deploy.Runtime) {
	t.Helper()
	require.Eventually(t, func() bool {
		o, err := d.Observe(t.Context(), ref)
		require.NoError(t, err)
		r = o.Runtime(1)
		return r.Phase == phase
	}, patience, 20*time.Millisecond, "%v", phase)
	return r
}

func healthy(url string) bool {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	res, err := c.Get(url + "/health")
	if err != nil {
		return false
	}
	return res.Body.Close() == nil && res.StatusCode == http.StatusOK
}

// shell runs a script with bash in a container, as an agent with the tool does.
func shell(t *testing.T, id, script string) string {
	t.Helper()
	e := engine(t)
	created, err := e.ExecCreate(t.Context(), id, client.ExecCreateOptions{Cmd: []string{"/bin/bash", "-c", script}, AttachStdout: true, AttachStderr: true})
	require.NoError(t, err)
	attached, err := e.ExecAttach(t.Context(), created.ID, client.ExecAttachOptions{})
	require.NoError(t, err)
	defer attached.Close()
	var out bytes.Buffer
	_, err = stdcopy.StdCopy(&out, &out, attached.Reader)
	require.NoError(t, err)
	return out.String()
}

// connects reports whether a container can connect to an address within a second.
func connects(t *testing.T, id, addr string) bool {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	script := fmt.Sprintf(`read -t 1 line < <(exec 3<>/dev/tcp/%s/%s && echo open); echo "$line"`, host, port)
	return strings.Contains(shell(t, id, script), "open\n")
}

// reaches requires that a container can connect to an address.
func reaches(t *testing.T, id, addr, message string) {
	t.Helper()
	require.Eventually(t, func() bool { return connects(t, id, addr) }, patience, time.Millisecond, message)
}

func listen(t *testing.T, addr string) (port string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	_, port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

func TestContainerReachesNoOtherPartOfTheSystem(t *testing.T) {
	t.Parallel()
	d := open(t)
	mine, sibling, other := start(t, d, "acme"), start(t, d, "acme"), start(t, d, "umbrella")
	inspect := func(id string) (address, gateway string) {
		found, err := engine(t).ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
		require.NoError(t, err)
		require.Len(t, found.Container.NetworkSettings.Networks, 1)
		for _, n := range found.Container.NetworkSettings.Networks {
			address, gateway = n.IPAddress.String(), n.Gateway.String()
		}
		return address, gateway
	}
	_, gateway := inspect(mine.container)
	siblings, _ := inspect(sibling.container)
	others, othersGateway := inspect(other.container)
	reaches(t, mine.container, "127.0.0.1:8080", "the test itself connects")
	hub := listen(t, "127.0.0.1:0")
	for _, addr := range []string{
		"127.0.0.1:" + hub, gateway + ":" + hub, othersGateway + ":" + hub,
		siblings + ":8080", others + ":8080",
		strings.Replace(other.URL, "http://127.0.0.1", gateway, 1), strings.Replace(other.URL, "http://127.0.0.1", othersGateway, 1),
		strings.Replace(sibling.URL, "http://127.0.0.1", gateway, 1),
	} {
		// While the engine creates a network for another test, its rules are not complete.
		require.Eventually(t, func() bool { return !connects(t, mine.container, addr) }, patience, 100*time.Millisecond, addr)
	}
	reaches(t, mine.container, gateway+":"+listen(t, "0.0.0.0:0"), "a port on all addresses is reached, as the documents state")
}

func TestContainerHasNoRights(t *testing.T) {
	t.Parallel()
	x := start(t, open(t), "acme")
	out := shell(t, x.container, `echo "$UID $(</proc/self/status)"; echo x >/file; echo x >/usr/local/bin/runtime; echo x >/data/file; echo x >/run/agenthost/keys
		for f in /var/run/docker.sock /run/docker.sock; do [ -e $f ] && echo has $f; done; echo fine >/data/work/file && echo $(</data/work/file)`)
	require.Contains(t, out, "65532 ")
	for _, line := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "/file: Read-only file system", "fine"} {
		require.Contains(t, out, line)
	}
	require.NotContains(t, out, "has /")
	found, err := engine(t).ContainerInspect(t.Context(), x.container, client.ContainerInspectOptions{})
	require.NoError(t, err)
	require.Equal(t, int64(1<<30), found.Container.HostConfig.Memory)
	require.Equal(t, int64(5e8), found.Container.HostConfig.NanoCPUs)
	require.Equal(t, int64(512), *found.Container.HostConfig.PidsLimit)
	text, err := json.Marshal(found)
	require.NoError(t, err)
	require.NotContains(t, string(text)+string(found.Raw), "planted", "the engine shows no part of the request")
}
