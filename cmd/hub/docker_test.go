package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
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

// Containers do not reach a receiver of traces on the loopback address of the machine.
func TestReceiverOnALoopbackAddress(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"localhost", "127.0.0.1", "[::1]"} {
		in := serving(t, []string{
			"HUB_DATA_DIR", t.TempDir(), "DEPLOYER", "docker", "DOCKER_HOST", away, "OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:planted@" + host + ":1",
		})
		in.Await(t, in.Log, regexp.MustCompile(`agents export no traces`))
		require.NotContains(t, in.Log.String(), "planted")
	}
}

// An engine with which no agent could run, or that anyone could pretend to be, is rejected.
func TestDockerSettingsAreRejected(t *testing.T) {
	t.Parallel()
	for reason, env := range map[string][]string{
		"the Docker engine is on another machine":       {"DOCKER_HOST", "tcp://192.0.2.1:2376", "HUB_CONFIG", file(t, "docker: {hubContainer: none}")},
		"begins with unix://, tcp:// or npipe://":       {"DOCKER_HOST", "ssh://root@127.0.0.1"},
		"DOCKER_CERT_PATH: any server could pretend":    {"DOCKER_HOST", "tcp://127.0.0.1:2376", "DOCKER_CERT_PATH", "/nonexistent"},
		"DOCKER_TLS_VERIFY: DOCKER_HOST does not begin": {"DOCKER_HOST", away, "DOCKER_TLS_VERIFY", "1"},
		"DOCKER_CERT_PATH: any server": {
			"DEPLOYER", "kubernetes", "KUBERNETES_NAMESPACE", "a", "KUBECONFIG", kubeconfig(t), "DOCKER_HOST", "tcp://127.0.0.1:2376", "DOCKER_CERT_PATH", "/x",
		},
		"ca.pem": {"DOCKER_HOST", "tcp://127.0.0.1:2376", "DOCKER_TLS_VERIFY", "1", "DOCKER_CERT_PATH", "/nonexistent"},
		`hub.yaml:1: docker.subnets: "10.0.0.0/x" is not a network`: {"DOCKER_HOST", away, "HUB_CONFIG", file(t, "docker: {subnets: [10.0.0.0/x]}")},
		"subnet 10.0.0.0/30 is not an IPv4 network from /8 to /26":  {"DOCKER_HOST", away, "HUB_CONFIG", file(t, "docker: {subnets: [10.1.0.0/16, 10.0.0.0/30]}")},
		"subnet 10.0.0.0/7 is not an IPv4 network from /8 to /26":   {"DOCKER_HOST", away, "HUB_CONFIG", file(t, "docker: {subnets: 10.0.0.1/7}")},
		"subnet fd00::/64 is not an IPv4 network from /8 to /26":    {"DOCKER_HOST", away, "HUB_CONFIG", file(t, "docker: {subnets: 'fd00::/64'}")},
	} {
		_, err := once(t, append(env, "HUB_DATA_DIR", t.TempDir(), "DEPLOYER", "docker"))
		require.ErrorContains(t, err, reason)
	}
}
