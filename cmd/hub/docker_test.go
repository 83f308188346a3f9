package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	main "github.com/seed93082962/agenthost/cmd/hub"
)

const away = "unix:///nonexistent/docker.sock"

// The hub starts without its engine, and names what a hub with processes has left.
func TestFilesOfFormerProcessesAreReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "deployments", "default-helper"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "deployments", ".locks"), 0o700))
	in := serving(t, []string{"HUB_DATA_DIR", dir, "DEPLOYER", "docker", "DOCKER_HOST", away})
	in.Await(t, in.Log, regexp.MustCompile(`files of agents that were processes remain.*`))
	require.Contains(t, in.Log.String(), filepath.Join(dir, "deployments"))
	require.Contains(t, in.Log.String(), `"entries":1`)
	require.Contains(t, in.Log.String(), "agents cannot be deployed until the Docker engine responds")
}

// An engine with which no agent could run, or that anyone could pretend to be, is rejected.
func TestDockerSettingsAreRejected(t *testing.T) {
	t.Parallel()
	for reason, env := range map[string][]string{
		"the Docker engine is on another machine":       {"DOCKER_HOST", "tcp://192.0.2.1:2376", "DOCKER_HUB_CONTAINER", "none"},
		"begins with unix://, tcp:// or npipe://":       {"DOCKER_HOST", "ssh://root@127.0.0.1"},
		"DOCKER_CERT_PATH without DOCKER_TLS_VERIFY":    {"DOCKER_HOST", "tcp://127.0.0.1:2376", "DOCKER_CERT_PATH", "/nonexistent"},
		"DOCKER_TLS_VERIFY: DOCKER_HOST does not begin": {"DOCKER_HOST", away, "DOCKER_TLS_VERIFY", "1"},
		"ca.pem": {"DOCKER_HOST", "tcp://127.0.0.1:2376", "DOCKER_TLS_VERIFY", "1", "DOCKER_CERT_PATH", "/nonexistent"},
		`DOCKER_SUBNETS: "10.0.0.0" is not a network`:              {"DOCKER_HOST", away, "DOCKER_SUBNETS", "10.0.0.0"},
		"subnet 10.0.0.0/30 is not an IPv4 network from /8 to /26": {"DOCKER_HOST", away, "DOCKER_SUBNETS", "10.1.0.0/16, 10.0.0.0/30"},
		"subnet 10.0.0.1/16 is not an IPv4 network from /8 to /26": {"DOCKER_HOST", away, "DOCKER_SUBNETS", "10.0.0.1/16"},
		"subnet fd00::/64 is not an IPv4 network from /8 to /26":   {"DOCKER_HOST", away, "DOCKER_SUBNETS", "fd00::/64"},
	} {
		_, err := once(t, append([]string{"HUB_DATA_DIR", t.TempDir(), "DEPLOYER", "docker"}, env...))
		require.ErrorContains(t, err, reason)
	}
}

func TestIDOfTheOwnContainer(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("0123456789abcdef", 4)
	const none = "0::/\n"
	for name, c := range map[string]struct{ mounts, groups, host, want string }{
		"control groups 2, or a namespace of them": {
			"731 709 254:1 /var/lib/docker/containers/" + id + "/resolv.conf /etc/resolv.conf rw,relatime - ext4 /dev/vda1 rw\n" +
				"732 709 254:1 /var/lib/docker/containers/" + id + "/hostname /etc/hostname rw,relatime - ext4 /dev/vda1 rw\n", none, "hub", id,
		},
		"control groups 1":                    {"1 0 254:1 / / rw - ext4 /dev/vda1 rw\n", "12:pids:/docker/" + id + "\n0::/system.slice/containerd.service\n", "hub", id},
		"control groups of systemd":           {"", "0::/system.slice/docker-" + id + ".scope\n", "hub", id},
		"only the host name":                  {"", none, id[:12], id[:12]},
		"a host name that is not an id":       {"", none, "hub", ""},
		"a file of another place":             {"731 709 254:1 /srv/" + id + "/hostname /etc/other rw - ext4 /dev/vda1 rw\n", none, "", ""},
		"no container":                        {"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n", "4:memory:/user.slice\n0::/init.scope\n", "", ""},
		"a group below that of the container": {"", "4:memory:/docker/" + id + "/agent\n", "", ""},
	} {
		require.Equal(t, c.want, main.ContainerID([]byte(c.mounts), []byte(c.groups), c.host), name)
	}
}
