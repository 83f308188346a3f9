package main_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
	main "github.com/seed93082962/agenthost/cmd/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
	"github.com/seed93082962/agenthost/sse"
)

var tryIt = regexp.MustCompile(`\nTry it:\n\n  curl -N( -H "x-api-key: ([^"]*)")? -d '(.*)' (http://\S+)\n\n$`)

func TestBannerCommandWorks(t *testing.T) {
	t.Chdir(write(t, strings.Replace(mixed, "  - {id: ready",
		"  - {id: no-key-either, model: m, provider: {protocol: openai}}\n  - {id: ready", 1)))
	in := serving(t, nil)
	m := in.Await(t, in.Stdout, tryIt)
	require.Empty(t, m[1], "no key is asked for")
	require.Equal(t, in.URL+"/v1/agents/ready/runs", m[4], "the first agent that is ready")
	var body map[string]string
	require.NoError(t, json.Unmarshal([]byte(m[3]), &body))
	require.NotEmpty(t, body["message"])

	// curl -d sends a POST request with a form.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m[4], strings.NewReader(m[3]))
	require.NoError(t, err)
	req.Header.Set("Accept", "*/*")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := caller(t).Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, http.StatusOK, res.StatusCode)
	events := sse.NewDecoder(res.Body)
	last := ""
	for ev, err := range events.Events() {
		require.NoError(t, err)
		last = ev.Type
	}
	require.Equal(t, "done", last)
}

func TestBannerWithKeys(t *testing.T) {
	for name, row := range map[string]struct{ file, env, want string }{
		"environment":             {"", "planted", "$AGENT_HTTP_API_KEY"},
		"list in the environment": {"", "planted,planted-too", "YOUR_KEY"},
		"file":                    {"auth: {apiKey: planted}", "", "YOUR_KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(write(t, row.file+demo))
			in := serving(t, []string{"AGENT_HTTP_API_KEY", row.env})
			require.Equal(t, row.want, in.Await(t, in.Stdout, tryIt)[2])
			require.NotContains(t, in.Stdout.String(), "planted")
		})
	}
}

func TestBannerWithNothingToTry(t *testing.T) {
	t.Chdir(write(t, "agents: [{id: a, model: m, provider: {protocol: openai}}]"))
	in := serving(t, nil)
	require.Regexp(t, `^agenthost runtime \S+, listening on http://127\.0\.0\.1:\d+\n$`, in.Stdout.String())
	require.Contains(t, in.Log.String(), "agent is unavailable")
}

func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	p := spawn(t, t.TempDir(), nil, "--addr", taken.Addr().String())
	p.Wait(t)
	require.Equal(t, 1, p.Cmd.ProcessState.ExitCode())
	require.Equal(t, "runtime: listen tcp "+taken.Addr().String()+": bind: address already in use\n", p.Log.String())
	require.Empty(t, p.Stdout.String())

	_, _, err = once(t, nil, "--addr", "nonsense")
	require.EqualError(t, err, "listen tcp: address nonsense: missing port in address")
}

func TestRestartAfterAKill(t *testing.T) {
	gate := make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Text("one"), modeltest.Gate(gate)), modeltest.Stream(modeltest.Text("two")))
	dir := write(t, "agents:\n  - {id: a, model: m, provider: {protocol: anthropic, apiKey: k, baseUrl: "+up.URL+"}}")
	p := spawn(t, dir, nil, "--addr", "127.0.0.1:0")
	p.Started(t)
	s := follow(t, p.Instance)
	s.until("partial_message")
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGKILL))
	require.Error(t, s.end(), "the stream broke off")
	p.Wait(t)

	again := spawn(t, dir, nil, "--addr", strings.TrimPrefix(p.URL, "http://"))
	again.Started(t)
	answer, err := clientOf(t, again.URL, "").Complete(t.Context(), "a", wire.RunRequest{Message: "hello"})
	require.NoError(t, err)
	require.Equal(t, "two", answer.Text)
}

// The program does not read the arguments of this process if it has none.
func TestRunDependsOnItsArguments(t *testing.T) {
	env := daemontest.Getenv([]string{"AGENT_CONFIG", "/does/not/exist"})
	err := main.Run(t.Context(), nil, env, io.Discard, io.Discard)
	require.ErrorContains(t, err, "read configuration: open /does/not/exist")
}
