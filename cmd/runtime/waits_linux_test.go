package main_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

const waitsYAML = `
agents:
  - id: a
    model: m
    provider: {protocol: anthropic, baseUrl: "{upstream}"}
`

// kill kills the command and starts it again.
func (s *stage) kill() {
	s.t.Helper()
	s.Signal(s.t, syscall.SIGKILL)
	s.Wait(s.t)
	s.start()
}

// ask starts a run that waits for an approval.
func (s *stage) ask() wire.RunResponse {
	s.t.Helper()
	res, err := s.api().Complete(s.t.Context(), "a", wire.RunRequest{Message: "go", Inputs: []string{"approval"}})
	require.NoError(s.t, err)
	require.Len(s.t, res.Pending, 1)
	return res
}

func approval(res wire.RunResponse) wire.RunRequest {
	return wire.RunRequest{
		SessionID: &res.SessionID, Inputs: []string{"approval"},
		Answers: []wire.Answer{{ID: res.Pending[0].ID, Decision: "approve"}},
	}
}

// used requires that the answers count no longer, and returns what the model learns of the call.
func (s *stage) used(res wire.RunResponse) string {
	s.t.Helper()
	_, err := s.api().Complete(s.t.Context(), "a", approval(res))
	var refused *client.Error
	require.ErrorAs(s.t, err, &refused)
	require.Equal(s.t, http.StatusConflict, refused.Status)
	require.Equal(s.t, "Not waiting", refused.Body.Error)
	return s.learns(res.SessionID)
}

// learns sends a message, and returns the result of the call that the model receives with it.
func (s *stage) learns(session string) string {
	s.t.Helper()
	res, err := s.api().Complete(s.t.Context(), "a", wire.RunRequest{Message: "And?", SessionID: &session})
	require.NoError(s.t, err)
	require.Equal(s.t, "Oh.", res.Text)
	requests := s.up.Requests()
	p := readPrompt(requests[len(requests)-1])
	return string(p.toolResults()["call_1"].Content)
}

// lines returns the number of times that the command was executed.
func (s *stage) lines() int {
	data, err := os.ReadFile(filepath.Join(s.cwd, "log"))
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	require.NoError(s.t, err)
	return strings.Count(string(data), "\n")
}

// A runtime that is killed while a session waits, or at any time after its answer, executes the
// call at most once. The model learns that the outcome is unknown.
func TestAKilledRuntimeExecutesAnApprovedCallOnce(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		command string
		then    modeltest.Reply
		run     func(s *stage, res wire.RunResponse) string
		want    string
	}{
		"before the answer": {"echo one >> log; cat log", says("Done."), func(s *stage, res wire.RunResponse) string {
			s.kill()
			res, err := s.api().Complete(s.t.Context(), "a", approval(res))
			require.NoError(s.t, err)
			require.Equal(s.t, "Done.", res.Text)
			return s.learns(res.SessionID)
		}, "one"},
		"during the call": {"echo one >> log; touch started; exec sleep 1000", says("Done."), func(s *stage, res wire.RunResponse) string {
			_, leave := s.begin("a", approval(res))
			s.appears("started")
			s.kill()
			leave()
			return s.used(res)
		}, "its outcome is unknown"},
		"after its result": {"echo one >> log; cat log", modeltest.Stream(modeltest.Hang()), func(s *stage, res wire.RunResponse) string {
			_, leave := s.begin("a", approval(res))
			s.up.Await(s.t, 2)
			s.kill()
			leave()
			return s.used(res)
		}, "one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, cast{"go": append(tool("Bash", `{"command":"`+row.command+`"}`), row.then), "And?": {says("Oh.")}}, waitsYAML)
			s.start()
			require.Contains(t, row.run(s, s.ask()), row.want)
			require.Equal(t, 1, s.lines())
		})
	}
}

// The runtime is killed at random moments of the run that asks and of the one that answers.
func TestARuntimeThatIsKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	s := newStage(t, cast{"go": append(tool("Bash", `{"command":"echo one >> log; echo it ran"}`), says("Done.")), "And?": {says("Oh.")}}, waitsYAML)
	s.start()
	var times []time.Duration // of a run that is not killed
	measure := func(req wire.RunRequest) wire.RunResponse {
		begin := time.Now()
		res, err := s.api().Complete(t.Context(), "a", req)
		require.NoError(t, err)
		times = append(times, time.Since(begin))
		return res
	}
	measure(approval(measure(wire.RunRequest{Message: "go", Inputs: []string{"approval"}})))
	killed := func(req wire.RunRequest, typical time.Duration) (session string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		timer := time.AfterFunc(rand.N(typical), func() { s.Signal(t, syscall.SIGKILL) })
		defer timer.Stop()
		for ev, err := range s.api().Run(ctx, "a", req) {
			if err != nil {
				break
			}
			if init, ok := ev.Payload.(*wire.System); ok && init.Init != nil {
				session = init.SessionID
			}
		}
		s.Wait(t)
		s.start()
		return session
	}
	for range 8 {
		before := s.lines()
		if session := killed(wire.RunRequest{Message: "go", Inputs: []string{"approval"}}, times[0]); session != "" {
			_, err := s.api().Complete(t.Context(), "a", wire.RunRequest{Message: "And?", SessionID: &session})
			require.NoError(t, err)
		}
		require.Equal(t, before, s.lines(), "nobody has approved it")

		res := s.ask()
		killed(approval(res), times[1])
		_, err := s.api().Complete(t.Context(), "a", approval(res))
		ran := s.lines() - before
		if err == nil {
			require.Equal(t, 1, ran, "the answer was not used before")
			continue
		}
		learned := s.used(res)
		switch {
		case strings.Contains(learned, "its outcome is unknown"):
			require.LessOrEqual(t, ran, 1)
		case strings.Contains(learned, "it ran"):
			require.Equal(t, 1, ran)
		default:
			require.Fail(t, "the model learns nothing", learned)
		}
	}
}
