package main_test

import (
	"context"
	"io"
	"iter"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// following is a run of agent "a" from the view of its client.
type following struct {
	t    *testing.T
	id   string
	next func() (wire.Event, error, bool)
}

// follow starts a run, which ends with the test.
func follow(t *testing.T, in *instance) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	next, stop := iter.Pull2(clientOf(t, in.URL, "").Run(ctx, "a", wire.RunRequest{Message: "hello"}))
	t.Cleanup(func() {
		cancel()
		stop()
	})
	f := &following{t: t, next: next}
	f.id = f.until("system").(*wire.System).RunID
	return f
}

// until returns the first event with that name.
func (f *following) until(name string) wire.Payload {
	f.t.Helper()
	for {
		ev, err, ok := f.next()
		require.True(f.t, ok, "the run ended without %s", name)
		require.NoError(f.t, err)
		if ev.EventName() == name {
			return ev.Payload
		}
	}
}

// end reads to the end and returns the error there, if any.
func (f *following) end() error {
	for {
		if _, err, ok := f.next(); err != nil || !ok {
			return err
		}
	}
}

// inFlight starts the command and a run that waits for gate after its first word.
func inFlight(t *testing.T, gate <-chan struct{}, args ...string) (*process, *following) {
	t.Helper()
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Text("one"), modeltest.Gate(gate), modeltest.Text("two")))
	dir := write(t, "agents:\n  - {id: a, model: m, provider: {protocol: anthropic, apiKey: k, baseUrl: "+up.URL+"}}")
	p := spawn(t, dir, nil, append([]string{"--addr", "127.0.0.1:0"}, args...)...)
	p.Started(t)
	f := follow(t, p.Instance)
	f.until("partial_message")
	return p, f
}

// draining waits until the process is draining.
func draining(t *testing.T, p *process) {
	t.Helper()
	c := caller(t)
	require.Eventually(t, func() bool {
		res, err := c.Get(p.URL + "/health/ready")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return err == nil && res.StatusCode == http.StatusServiceUnavailable && string(body) == "{\"status\":\"draining\"}\n"
	}, patience, 5*time.Millisecond)
}

func TestSignalsDrain(t *testing.T) {
	for name, sig := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT, "SIGHUP": syscall.SIGHUP} {
		t.Run(name, func(t *testing.T) {
			gate := make(chan struct{})
			p, run := inFlight(t, gate, "--drain-timeout", patience.String())
			p.Signal(t, sig)
			draining(t, p)
			_, err := clientOf(t, p.URL, "").Complete(t.Context(), "a", wire.RunRequest{Message: "too late"})
			var refusal *client.Error
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, client.Error{Status: http.StatusServiceUnavailable, Body: wire.ErrorBody{Error: "Draining"}}, *refusal)
			health, err := clientOf(t, p.URL, "").Health(t.Context())
			require.NoError(t, err, "it is alive all the same")
			require.Equal(t, "ok", health.Status)

			close(gate)
			require.Equal(t, "onetwo", *run.until("result").(*wire.Result).Result)
			run.until("done")
			require.NoError(t, run.end())
			p.Wait(t)
			require.Zero(t, p.Cmd.ProcessState.ExitCode(), "%s", p.Log)
			require.Regexp(t, `"message":"draining"(.|\n)*"message":"stopped"`, p.Log.String())
		})
	}
}

func TestRunsThatOutlastTheDrainAreCancelled(t *testing.T) {
	p, run := inFlight(t, make(chan struct{}), "--drain-timeout", "100ms")
	p.Signal(t, syscall.SIGTERM)
	require.Equal(t, wire.ReasonShutdown, run.until("cancelled").(*wire.Cancelled).Reason)
	run.until("done")
	require.NoError(t, run.end())
	p.Wait(t)
	require.Zero(t, p.Cmd.ProcessState.ExitCode(), "%s", p.Log)
}

func TestCancelWhileDraining(t *testing.T) {
	p, run := inFlight(t, make(chan struct{}), "--drain-timeout", patience.String())
	p.Signal(t, syscall.SIGTERM)
	draining(t, p)
	_, err := clientOf(t, p.URL, "").Cancel(t.Context(), run.id)
	require.NoError(t, err)
	require.Equal(t, wire.ReasonClientRequest, run.until("cancelled").(*wire.Cancelled).Reason)
	p.Wait(t)
	require.Zero(t, p.Cmd.ProcessState.ExitCode(), "%s", p.Log)
}

func TestSecondSignalCancelsRuns(t *testing.T) {
	p, run := inFlight(t, make(chan struct{}), "--drain-timeout", (2 * patience).String())
	p.Signal(t, syscall.SIGTERM)
	draining(t, p)
	p.Signal(t, syscall.SIGTERM)
	require.Equal(t, wire.ReasonShutdown, run.until("cancelled").(*wire.Cancelled).Reason)
	run.until("done")
	require.NoError(t, run.end())
	p.Wait(t)
	require.Zero(t, p.Cmd.ProcessState.ExitCode(), "%s", p.Log)
}

func TestSignalWithoutRunsExitsImmediately(t *testing.T) {
	p := spawn(t, t.TempDir(), nil, "--addr", "127.0.0.1:0", "--drain-timeout", (2 * patience).String())
	p.Started(t)
	p.Signal(t, syscall.SIGTERM)
	p.Wait(t)
	require.Zero(t, p.Cmd.ProcessState.ExitCode(), "%s", p.Log)
}

func TestDrainTimeoutDefaultsTo20s(t *testing.T) {
	p := spawn(t, t.TempDir(), nil, "--addr", "127.0.0.1:0")
	p.Started(t)
	p.Signal(t, syscall.SIGTERM)
	p.Wait(t)
	require.Regexp(t, `"timeout":"20s".*"message":"draining"`, p.Log.String())
}
