//go:build deploy

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// build builds the programs, as they are shipped, into a new directory.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", dir, "../../cmd/hub", "../../cmd/runtime")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// inNamespaces runs a script of testdata in namespaces, whose processes and mounts end with it, and
// returns what it prints.
func inNamespaces(t *testing.T, namespaces []string, script string) (string, error) {
	t.Helper()
	t.Parallel()
	args := append(namespaces, "--mount", "--pid", "--net", "--fork", "--kill-child", "bash", "testdata/"+script, build(t), t.TempDir())
	out, err := exec.CommandContext(t.Context(), "unshare", args...).CombinedOutput()
	return string(out), err
}

func TestCompose(t *testing.T) {
	out, err := inNamespaces(t, nil, "compose.sh")
	require.NoError(t, err, out)
	require.Contains(t, out, `agent: {"id":"helper"`)
	require.Contains(t, out, "You wrote: before the restart")
	require.Contains(t, out, "You wrote: after the restart")
	require.Contains(t, out, "agenthost-default-helper.1.1 agenthost-runtime:latest Up")
}

func TestSystemd(t *testing.T) {
	out, _ := inNamespaces(t, []string{"--uts", "--ipc", "--cgroup"}, "systemd.sh") // the system powers off, which is a signal
	require.Contains(t, out, `"sandbox":{"mode":"auto","files":true,"network":true}`, "the unit leaves the sandbox what it needs")
	require.Contains(t, out, "You wrote: before the restart")
	require.Contains(t, out, "You wrote: after the restart")
	runtimes := regexp.MustCompile(`(?m)^runtime: (.+)$`).FindAllStringSubmatch(out, -1)
	require.Len(t, runtimes, 2, out)
	require.Equal(t, runtimes[0][1], runtimes[1][1], "a restart of the hub ends no agent")
	require.Contains(t, runtimes[0][1], "agenthost")

	for _, name := range []string{"NoNewPrivs:\t1", "CapBnd:\t0000000000000000", "Seccomp:\t2"} {
		require.Contains(t, out, name)
	}
	for _, path := range []string{"/etc", "/usr", "/home"} {
		require.NotContains(t, out, "writes "+path+"\n")
	}
	require.Contains(t, out, "writes /var/lib/agenthost\n")
	require.Empty(t, regexp.MustCompile(`(?m)^verify: .+$`).FindAllString(out, -1))
}

// TestExposure bounds what the unit permits. A stand-alone command of systemd computes it.
func TestExposure(t *testing.T) {
	const most = 3.7 // of 10; namespaces and mounts, which sandboxes need, are most of it
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--no-pager",
		filepath.Join("systemd", "agenthost-hub.service")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	level := regexp.MustCompile(`exposure level for agenthost-hub.service: ([\d.]+)`).FindStringSubmatch(string(out))
	require.Len(t, level, 2, "%s", out)
	number, err := strconv.ParseFloat(level[1], 64)
	require.NoError(t, err)
	require.LessOrEqual(t, number, most, strings.TrimSpace(string(out)))
}
