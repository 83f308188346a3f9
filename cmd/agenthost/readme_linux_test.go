package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/internal/logtest"
)

// The commands of the README lead to an agent of the reader's own.
func TestCommandsOfTheReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	script, _, _ := strings.Cut(strings.Split(string(text), "```sh\n")[2], "```")
	script, built := strings.CutPrefix(script, "go build ./cmd/agenthost ")
	require.True(t, built)
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer end(t, p)
	p.Await(t, p.Stdout, running)
	cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", script)
	cmd.Dir = filepath.Dir(p.Cmd.Path)
	cmd.Env = append(os.Environ(), "AGENTHOST_CONFIG="+filepath.Join(dir, "config"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, 2, strings.Count(string(out), "You wrote: Hello!"), "%s", out)
	require.Contains(t, string(out), "The agent helper is running, revision 1.")
	require.Contains(t, string(out), "agent.deploy")
}

// The first command of the README works on a machine with only Go, without a question. Ctrl-C ends
// it.
func TestFirstCommandOfTheReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, block, _ := strings.Cut(string(text), "```sh\n")
	command, _, _ := strings.Cut(block, "#")
	require.Equal(t, "go run -v ./cmd/agenthost dev", strings.TrimSpace(command))
	dir := t.TempDir()
	args := append(strings.Fields(command)[1:], "--addr", "127.0.0.1:0")
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "AGENTHOST_CONFIG="+dir, "XDG_STATE_HOME="+dir,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1") // is for other programs of the user
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a shell does
	var out logtest.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	late := time.After(daemontest.Patience)
	for {
		text, wrote := out.Now()
		if running.MatchString(text) {
			break
		}
		select {
		case <-wrote:
		case err := <-ended:
			require.FailNow(t, "it ended", "%v: %s", err, text)
		case <-late:
			require.FailNow(t, "it does not start", text)
		}
	}
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	select {
	case <-ended: // go run reports the signal
	case <-late:
		require.FailNow(t, "it does not end", out.String())
	}
}
