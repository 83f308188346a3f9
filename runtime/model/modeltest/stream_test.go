package modeltest_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/model/modeltest"
)

var protocols = []modeltest.Protocol{modeltest.Anthropic, modeltest.OpenAI}

func TestHangEndsWhenTheClientGoes(t *testing.T) {
	for _, p := range protocols {
		t.Run(string(p), func(t *testing.T) {
			up := modeltest.Start(t, p, modeltest.Stream(modeltest.Text("begun"), modeltest.Hang()))
			ctx, cancel := context.WithCancel(t.Context())
			res := open(ctx, t, up, p)
			readUntil(t, res.Body, "begun")
			select {
			case <-up.Await(t, 1).Closed():
				t.Fatal("closed while the client is there")
			default:
			}
			start := time.Now()
			cancel()
			at, early := up.Await(t, 1).End()
			require.True(t, early)
			require.False(t, at.Before(start))
		})
	}
}

func TestClientGoesWhileNothingHasBeenSent(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Hang()))
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		res, err := http.DefaultClient.Do(request(ctx, t, modeltest.Anthropic, up.URL, anthropicBody))
		if err == nil {
			res.Body.Close()
		}
		failed <- err
	}()
	r := up.Await(t, 1)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	_, early := r.End()
	require.True(t, early)
}

func TestACompleteReplyIsNotAnEarlyEnd(t *testing.T) {
	up := modeltest.Start(t, modeltest.OpenAI, modeltest.Stream(modeltest.Text("a", "b")))
	ask(t, up, modeltest.OpenAI)
	_, early := up.Await(t, 1).End()
	require.False(t, early)
}

func TestUpstreamThatClosesEndsWhatHangs(t *testing.T) {
	var r *modeltest.Request
	t.Run("inner", func(t *testing.T) {
		up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("x"), modeltest.Hang()))
		open(context.WithoutCancel(t.Context()), t, up, modeltest.Anthropic)
		r = up.Await(t, 1)
	})
	r.End()
}

func TestBrokenOffStreams(t *testing.T) {
	for _, p := range protocols {
		for _, c := range []struct {
			name  string
			steps []modeltest.Step
			err   error
		}{
			{"dropped", []modeltest.Step{modeltest.Text("half"), modeltest.Drop()}, io.ErrUnexpectedEOF},
			{"cut", []modeltest.Step{modeltest.Text("half"), modeltest.Cut()}, nil},
			{"error", []modeltest.Step{modeltest.Text("half"), modeltest.Error("overloaded_error")}, nil},
		} {
			t.Run(string(p)+" "+c.name, func(t *testing.T) {
				up := modeltest.Start(t, p, modeltest.Stream(c.steps...))
				body, err := io.ReadAll(open(t.Context(), t, up, p).Body)
				require.Equal(t, c.err, err)
				require.Contains(t, string(body), "half")
				require.NotContains(t, string(body), "message_stop")
				require.NotContains(t, string(body), "[DONE]")
			})
		}
	}
}

func TestDropBeforeTheHeader(t *testing.T) {
	up := modeltest.Start(t, modeltest.OpenAI, modeltest.Stream(modeltest.Drop()))
	_, err := http.DefaultClient.Do(request(t.Context(), t, modeltest.OpenAI, up.URL, openaiBody))
	require.ErrorIs(t, err, io.EOF)
}

func TestGate(t *testing.T) {
	gate := make(chan struct{})
	up := modeltest.Start(t, modeltest.OpenAI, modeltest.Stream(
		modeltest.Text("before"), modeltest.Gate(gate), modeltest.Text("after")))
	res := open(t.Context(), t, up, modeltest.OpenAI)
	readUntil(t, res.Body, "before")
	gate <- struct{}{} // is received only where the reply waits
	readUntil(t, res.Body, "after")
}

// flushes records the number of bytes written and the time of each flush.
type flushes struct {
	*httptest.ResponseRecorder
	start time.Time
	times []time.Duration
}

func (f *flushes) Flush() { f.times = append(f.times, time.Since(f.start)) }

func TestPacing(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		reply modeltest.Reply
		want  []time.Duration // of the flushes: role, increments, end
	}{
		{"no waits", modeltest.Stream(modeltest.Text("a", "b")), []time.Duration{0, 0, 0, 0}},
		{"pace", modeltest.Stream(modeltest.Pace(20*ms), modeltest.Text("a", "b"), modeltest.Pace(0), modeltest.Text("c")),
			[]time.Duration{0, 20 * ms, 40 * ms, 40 * ms, 40 * ms}},
		{"wait before the header", modeltest.Stream(modeltest.Wait(time.Second), modeltest.Text("a"), modeltest.Wait(ms)),
			[]time.Duration{time.Second, time.Second, 1001 * ms}},
		{"burst", modeltest.Burst(modeltest.Text("a", "b")), []time.Duration{0}},
		{"burst between waits", modeltest.Burst(modeltest.Text("a", "b"), modeltest.Wait(ms), modeltest.Text("c", "d")),
			[]time.Duration{0, ms}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &flushes{ResponseRecorder: httptest.NewRecorder(), start: time.Now()}
				up := modeltest.New(modeltest.OpenAI, c.reply)
				up.ServeHTTP(w, request(t.Context(), t, modeltest.OpenAI, "/v1", openaiBody))
				require.Equal(t, c.want, w.times)
			})
		})
	}
}
