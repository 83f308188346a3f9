package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
	runtimewire "github.com/seed93082962/agenthost/runtime/wire"
)

// built builds the command as it is shipped.
var built = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "agenthost")
	return path, daemontest.Build(path)
})

// startDev starts agenthost dev in a directory, on a free port. The caller ends it with end,
// because the end of a test kills a process, and its agents would continue.
func startDev(t testing.TB, dir string, env []string, args ...string) *daemontest.Process {
	t.Helper()
	binary, err := built()
	require.NoError(t, err)
	env = append([]string{"PATH", os.Getenv("PATH"), "AGENTHOST_CONFIG", filepath.Join(dir, "config")}, env...)
	p := daemontest.Spawn(t, binary, dir, env, append([]string{"dev", "--addr", "127.0.0.1:0"}, args...)...)
	p.Started(t)
	return p
}

// end ends agenthost dev and its agents.
func end(t testing.TB, p *daemontest.Process) {
	t.Helper()
	_ = p.Cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	p.Wait(t)
}

var devToken = regexp.MustCompile(`"token": "(dev_\w+)"`)

// clientOf returns a client with the token that agenthost dev has stored for the user.
func clientOf(t *testing.T, p *daemontest.Process, dir string) *client.Client {
	t.Helper()
	file := filepath.Join(dir, "config", "hubs.json")
	known, err := os.ReadFile(file)
	require.NoError(t, err)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	c, err := client.New(client.Config{BaseURL: p.URL, Token: devToken.FindStringSubmatch(string(known))[1]})
	require.NoError(t, err)
	return c
}

// ask returns the answer of an agent.
func ask(t *testing.T, c *client.Client, agent, message string) string {
	t.Helper()
	session, err := c.Chats.Create(t.Context(), agent, "")
	require.NoError(t, err)
	var text strings.Builder
	for event, err := range c.Chats.Send(t.Context(), agent, session.ID, wire.ChatMessageRequest{Message: message}) {
		require.NoError(t, err)
		if p, ok := event.(*runtimewire.PartialMessage); ok {
			text.WriteString(p.Partial.Text)
		}
	}
	return text.String()
}

var running = regexp.MustCompile(`The agent demo is running with the model (\S+)\.`)

// The program starts without any set-up, deploys an agent, and starts it again the next time. Its
// agents and its credentials end with it.
func TestDev(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer func() { end(t, p) }()
	require.Equal(t, "demo", p.Await(t, p.Stdout, running)[1])
	link := p.Await(t, p.Stdout, regexp.MustCompile(`(http://\S+)/console/register#setup=(\w+)\n`))
	require.Equal(t, p.URL, link[1])
	c := clientOf(t, p, dir)
	require.Contains(t, ask(t, c, "demo", "Hello!"), "You wrote: Hello!")
	user, err := c.Auth.UserInfo(t.Context())
	require.NoError(t, err)
	require.Equal(t, "dev", user.Username)
	_, err = c.Auth.Setup(t.Context(), wire.SetupRequest{Username: "ada", Password: "correct horse", SetupToken: link[2]})
	require.NoError(t, err)
	c = clientOf(t, p, dir)
	user, err = c.Auth.UserInfo(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ada", user.Username, "the account that registered")
	_, err = c.Agents.Create(t.Context(), wire.AgentRequest{Name: "helper", ProviderID: "demo", Model: "demo"})
	require.NoError(t, err)
	for entry, err := range c.Audit.List(t.Context(), client.AuditFilter{Action: "agent.create"}) {
		require.NoError(t, err)
		require.Equal(t, []string{"ada", user.ID}, []string{entry.UserName, entry.UserID})
		break
	}
	mode, err := c.Auth.Mode(t.Context())
	require.NoError(t, err)
	require.False(t, mode.Program, "the console has its forms")
	state, err := c.Deployments.Get(t.Context(), "demo")
	require.NoError(t, err)
	p.Signal(t, syscall.SIGINT)
	require.Zero(t, p.Exit(t), p.Log.String())
	_, err = client.New(client.Config{BaseURL: state.RuntimeURL})
	require.NoError(t, err)
	known, err := os.ReadFile(filepath.Join(dir, "config", "hubs.json"))
	require.NoError(t, err)
	require.NotContains(t, string(known), "dev_")

	p = startDev(t, dir, nil)
	p.Await(t, p.Stdout, running)
	require.NotContains(t, p.Stdout.String(), "#setup=")
	require.Contains(t, ask(t, clientOf(t, p, dir), "demo", "Again!"), "You wrote: Again!")
}

// The hub responds within a second of the start of the program. A busy machine has more time.
func TestDevIsReadySoon(t *testing.T) {
	t.Parallel()
	if _, err := built(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	p := startDev(t, t.TempDir(), nil)
	defer end(t, p)
	took := time.Since(begin)
	t.Logf("ready after %v", took)
	require.Less(t, took, 20*time.Second)
}

// BenchmarkDev measures the time from the start of the program with an empty directory until the
// hub responds, and until the agent runs.
func BenchmarkDev(b *testing.B) {
	_, err := built()
	require.NoError(b, err)
	var ready, deployed []float64
	for b.Loop() {
		begin := time.Now()
		p := startDev(b, b.TempDir(), nil)
		ready = append(ready, float64(time.Since(begin).Milliseconds()))
		p.Await(b, p.Stdout, running)
		deployed = append(deployed, float64(time.Since(begin).Milliseconds()))
		end(b, p)
	}
	slices.Sort(ready)
	slices.Sort(deployed)
	b.ReportMetric(ready[len(ready)/2], "ms-to-ready")
	b.ReportMetric(ready[len(ready)-1], "ms-to-ready-max")
	b.ReportMetric(deployed[len(deployed)/2], "ms-to-agent")
}

func TestDevServesOnlyThisMachine(t *testing.T) {
	t.Parallel()
	binary, err := built()
	require.NoError(t, err)
	for _, addr := range []string{"0.0.0.0:8080", "192.0.2.1:80", "8080"} {
		out, err := exec.CommandContext(t.Context(), binary, "dev", "--addr", addr, "--data", t.TempDir()).CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		require.True(t, ok, addr)
		require.Equal(t, 2, exit.ExitCode())
		require.Contains(t, string(out), addr)
	}
}

func TestSizeOfTheProgram(t *testing.T) {
	t.Parallel()
	binary, err := built()
	require.NoError(t, err)
	info, err := os.Stat(binary)
	require.NoError(t, err)
	t.Logf("%.1f MB", float64(info.Size())/1e6)
	require.Less(t, info.Size(), int64(80e6))
}
