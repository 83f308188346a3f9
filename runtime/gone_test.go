package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// inProcess is a model that is a function: it has no connection, as a test inside synctest must
// not.
type inProcess func(ctx context.Context, yield func(model.Part, error) bool)

func (f inProcess) Stream(ctx context.Context, _ *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) { f(ctx, yield) }
}

// says completes a response with one text.
func says(yield func(model.Part, error) bool, text string) {
	_ = yield(model.Part{Kind: model.KindText, Text: text},
		nil) && yield(model.Part{Kind: model.KindStop, StopReason: model.StopEndTurn}, nil)
}

// writer is the connection of a client that may disconnect without notice: writes fail, but the
// context of the request does not end.
type writer struct {
	*httptest.ResponseRecorder
	gone bool

	mu    sync.Mutex // guards the fields below
	spans []time.Duration
}

func (w *writer) Write(p []byte) (int, error) {
	if w.gone && bytes.Contains(p, []byte("One")) {
		return 0, errors.New("connection reset by peer")
	}
	return w.ResponseRecorder.Write(p)
}

func (w *writer) SetWriteDeadline(at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !at.IsZero() {
		w.spans = append(w.spans, time.Until(at))
	}
	return nil
}

// direct runs the helper at a model in this process, without a connection.
func direct(ctx context.Context, t *testing.T, w http.ResponseWriter, m inProcess, change func(*runtime.Config)) (log string) {
	t.Helper()
	var buf logtest.Buffer
	cfg := runtime.Config{
		Agents: []agent.Agent{helper(nil)}, CWD: t.TempDir(), Logger: slog.New(slog.NewJSONHandler(&buf, nil)),
		NewModel: func(agent.Provider) (model.Model, error) { return m, nil },
	}
	if change != nil {
		change(&cfg)
	}
	rt, err := runtime.New(ctx, cfg)
	require.NoError(t, err)
	rt.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "http://localhost"+runs, strings.NewReader(hello)))
	require.NoError(t, rt.Close())
	return buf.String()
}

func TestHeartbeatOfTheConfiguration(t *testing.T) {
	for beat, pings := range map[time.Duration]int{0: 4, 7 * time.Second: 8, time.Minute: 1, -1: 0} {
		synctest.Test(t, func(t *testing.T) {
			w := &writer{ResponseRecorder: httptest.NewRecorder()}
			direct(t.Context(), t, w, func(_ context.Context, yield func(model.Part, error) bool) {
				<-time.After(62 * time.Second) // silent for less than llmIdleTimeout
				says(yield, "One")
			}, func(c *runtime.Config) { c.Heartbeat = beat })
			require.Equal(t, pings, strings.Count(w.Body.String(), ": ping\n"), beat)
		})
	}
}

func TestWriteTimeoutOfTheConfiguration(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{0: 30 * time.Second, 7 * time.Second: 7 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := &writer{ResponseRecorder: httptest.NewRecorder()}
			direct(t.Context(), t, w, func(_ context.Context, yield func(model.Part, error) bool) { says(yield, "One") },
				func(c *runtime.Config) { c.WriteTimeout = limit })
			require.NotEmpty(t, w.spans)
			for _, span := range w.spans {
				require.Equal(t, want, span)
			}
		})
	}
}

func TestAFailedWriteCancelsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, ended := time.Now(), time.Duration(0)
		w := &writer{ResponseRecorder: httptest.NewRecorder(), gone: true}
		log := direct(t.Context(), t, w, func(ctx context.Context, yield func(model.Part, error) bool) {
			yield(model.Part{Kind: model.KindText, Text: "One"}, nil)
			<-ctx.Done()
			ended = time.Since(begin)
			yield(model.Part{}, ctx.Err())
		}, nil)
		require.Contains(t, log, `"state":"cancelled"`)
		require.Contains(t, log, `"reason":"disconnect"`)
		require.Zero(t, ended, "at once, not when the next event is due")
		require.NotContains(t, w.Body.String(), "event: done")
	})
}

func TestAFailedHeartbeatCancelsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, ended := time.Now(), time.Duration(0)
		w := &mute{writer{ResponseRecorder: httptest.NewRecorder()}}
		log := direct(t.Context(), t, w, func(ctx context.Context, yield func(model.Part, error) bool) {
			<-ctx.Done()
			ended = time.Since(begin)
			yield(model.Part{}, ctx.Err())
		}, nil)
		require.Contains(t, log, `"reason":"disconnect"`)
		require.Equal(t, 15*time.Second, ended)
	})
}

// mute is a connection on which writing a heartbeat fails.
type mute struct{ writer }

func (w *mute) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte(":")) {
		return 0, errors.New("connection reset by peer")
	}
	return w.writer.Write(p)
}

func TestCancelCause(t *testing.T) {
	call := func(_ context.Context, yield func(model.Part, error) bool) {
		_ = yield(model.Part{Kind: model.KindToolUse, ID: "t1", Name: "slow"}, nil) &&
			yield(model.Part{Kind: model.KindStop, StopReason: model.StopToolUse}, nil)
	}
	for name, leave := range map[string]func(cancel context.CancelCauseFunc){
		"a request that ended":                   func(cancel context.CancelCauseFunc) { cancel(nil) },
		"a request that ended for its own cause": func(cancel context.CancelCauseFunc) { cancel(errors.New("server is closing")) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			var cause error
			slow := tool.New(tool.Spec{Name: "slow", ReadOnly: true}, func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				leave(cancel)
				<-ctx.Done()
				cause = context.Cause(ctx)
				return tool.Result{}, cause
			})
			log := direct(ctx, t, httptest.NewRecorder(), call, func(c *runtime.Config) { c.Tools = []tool.Tool{slow} })
			require.ErrorIs(t, cause, wire.ReasonDisconnect)
			require.Contains(t, log, `"state":"cancelled"`)
			require.Contains(t, log, `"reason":"disconnect"`)
		})
	}
}
