package host_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/host"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// The test binary is the program with a deployment.
func TestMain(m *testing.M) {
	if !host.IsChild(os.Args) {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := host.Run(ctx, host.Process{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Getenv: os.Getenv}); err != nil {
		println(err.Error())
		os.Exit(1)
	}
}

// A program that passes a context instead of signals drains all the same.
func TestRunsContinueAfterTheFirstSignal(t *testing.T) {
	executable, err := os.Executable()
	require.NoError(t, err)
	gate := make(chan struct{})
	up := modeltest.Start(t, modeltest.OpenAI, modeltest.Stream(modeltest.Text("Half"), modeltest.Gate(gate), modeltest.Text(" and half")))
	dir := t.TempDir()
	for name, text := range map[string]string{
		agent.DeployedKeys: "key-of-the-test",
		agent.DeployedFile: "cwd: " + dir + "\nstateDir: " + filepath.Join(dir, "state") + "\nagents:\n  - id: a\n    model: m\n" +
			"    provider: {protocol: openai, baseUrl: '" + up.URL + "', apiKey: key}\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	file, err := listener.(*net.TCPListener).File()
	require.NoError(t, err)
	var log strings.Builder
	child := &exec.Cmd{
		Path: executable, Args: []string{executable, agent.DeployedArg}, Dir: dir,
		Stdin: strings.NewReader("\n"), Stderr: &log, ExtraFiles: []*os.File{file},
	}
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill() })
	url := "http://" + listener.Addr().String()
	require.NoError(t, file.Close())
	require.NoError(t, listener.Close())
	c, err := client.New(client.Config{BaseURL: url, APIKey: "key-of-the-test", HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return c.Ready(t.Context()) == nil }, time.Minute, 5*time.Millisecond)
	type result struct {
		answer wire.RunResponse
		err    error
	}
	results := make(chan result, 1)
	go func() {
		answer, err := c.Complete(context.WithoutCancel(t.Context()), "a", wire.RunRequest{Message: "hello"})
		results <- result{answer, err}
	}()
	up.Await(t, 1)
	require.NoError(t, child.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool { return c.Ready(t.Context()) != nil }, time.Minute, 5*time.Millisecond, "it drains")
	close(gate)
	got := <-results
	require.NoError(t, got.err)
	require.Equal(t, wire.StateCompleted, got.answer.State, got.answer.Error)
	require.NoError(t, child.Wait(), log.String())
}

func TestProgramThatCouldNotEnd(t *testing.T) {
	err := host.Run(context.Background(), host.Process{Args: []string{"x", agent.DeployedArg}, Stdin: strings.NewReader("\n"), Getenv: os.Getenv})
	require.EqualError(t, err, "run child: neither signals nor the context would end it")
}
