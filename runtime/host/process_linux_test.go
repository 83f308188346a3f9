package host_test

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/host"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// The test binary is the program with a deployment, and the stdio server of the tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serverRole {
		if err := serveStdio(); err != nil {
			os.Exit(1)
		}
		return
	}
	if !host.IsChild(os.Args) {
		os.Exit(m.Run())
	}
	p := host.Process{Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Getenv: os.Getenv}
	ctx := context.Background()
	if os.Getenv(withSignals) != "" {
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, syscall.SIGTERM)
		p.Signals = signals
	} else {
		ctx, _ = signal.NotifyContext(ctx, syscall.SIGTERM)
	}
	if err := host.Run(ctx, p); err != nil {
		println(err.Error())
		os.Exit(1)
	}
}

// withSignals names the variable of a child that passes signals instead of a context.
const withSignals = "HOST_TEST_SIGNALS"

// start starts the runtime of a deployment with an agent. It inherits a listener, unless there is
// another file.
func start(t *testing.T, definition string, inherited *os.File, env ...string) (child *exec.Cmd, url string) {
	t.Helper()
	executable, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	for name, text := range map[string]string{
		agentvalue.DeployedKeys: "key-of-the-test",
		agentvalue.DeployedFile: "cwd: " + dir + "\nstateDir: " + filepath.Join(dir, "state") + "\nagents: [" + definition + "]\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	file, err := listener.(*net.TCPListener).File()
	require.NoError(t, err)
	defer file.Close()
	child = &exec.Cmd{
		Path: executable, Args: []string{executable, agentvalue.DeployedArg}, Dir: dir, Env: append(os.Environ(), env...),
		Stdin: strings.NewReader("\n"), Stderr: &strings.Builder{}, ExtraFiles: []*os.File{cmp.Or(inherited, file)},
	}
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill() })
	return child, "http://" + listener.Addr().String()
}

// A program that passes a context instead of signals drains all the same.
func TestRunsContinueAfterTheFirstSignal(t *testing.T) {
	gate := make(chan struct{})
	up := modeltest.Start(t, modeltest.OpenAI, modeltest.Stream(modeltest.Text("Half"), modeltest.Gate(gate), modeltest.Text(" and half")))
	child, url := start(t, "{id: a, model: m, provider: {protocol: openai, baseUrl: '"+up.URL+"', apiKey: key}}", nil)
	c, err := client.New(client.Config{BaseURL: url, APIKey: "key-of-the-test", HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return c.Ready(t.Context()) == nil }, time.Minute, 20*time.Millisecond)
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
	require.Eventually(t, func() bool { return c.Ready(t.Context()) != nil }, time.Minute, 20*time.Millisecond, "it drains")
	close(gate)
	got := <-results
	require.NoError(t, got.err)
	require.Equal(t, wire.StateCompleted, got.answer.State, got.answer.Error)
	require.NoError(t, child.Wait(), child.Stderr)
}

// A signal and the end of the context end a runtime that does not serve yet, because a skill is
// still downloaded.
func TestTheEndOfAStart(t *testing.T) {
	for _, signals := range []string{"", "signals"} {
		asked := make(chan struct{}, 1)
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			<-r.Context().Done()
		}))
		t.Cleanup(server.Close)
		child, _ := start(t, "{id: a, model: demo, provider: {protocol: demo}, skillArchives: [{name: review, url: '"+
			server.URL+"/x.zip', hash: 'sha256:"+strings.Repeat("0", 64)+"'}]}", nil, withSignals+"="+signals)
		<-asked
		require.NoError(t, child.Process.Signal(syscall.SIGTERM))
		require.Error(t, child.Wait())
		require.Contains(t, fmt.Sprint(child.Stderr), context.Canceled.Error(), "the download did not end by its timeout")
	}
}

// A descriptor that is not a listener ends the process.
func TestNoListener(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	defer file.Close()
	child, _ := start(t, "{id: a, model: demo, provider: {protocol: demo}}", file)
	require.Error(t, child.Wait())
	require.Contains(t, fmt.Sprint(child.Stderr), "use inherited listener: ")
}

func TestProgramThatCouldNotEnd(t *testing.T) {
	err := host.Run(context.Background(), host.Process{Args: []string{"x", agentvalue.DeployedArg}, Stdin: strings.NewReader("\n"), Getenv: os.Getenv})
	require.EqualError(t, err, "run child: neither signals nor the context would end it")
}
