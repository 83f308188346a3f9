package engine_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// inProcess is a model that is implemented by a function of the host program.
type inProcess func(ctx context.Context, req *model.Request, yield func(model.Part, error) bool)

func (f inProcess) Stream(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) { f(ctx, req, yield) }
}

// turns returns the next response in each call. It has no connection, as a test inside
// synctest must not.
func turns(answers ...[]model.Part) model.Model {
	var call atomic.Int64
	return inProcess(func(_ context.Context, _ *model.Request, yield func(model.Part, error) bool) {
		for _, p := range answers[call.Add(1)-1] {
			if !yield(p, nil) {
				return
			}
		}
	})
}

func says(text string) []model.Part {
	return []model.Part{{Kind: model.KindText, Text: text}, {Kind: model.KindStop, StopReason: model.StopEndTurn}}
}

func calls(name string) []model.Part {
	return []model.Part{{Kind: model.KindToolUse, ID: "t1", Name: name}, {Kind: model.KindStop, StopReason: model.StopToolUse}}
}

func TestIdleModelTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := inProcess(func(ctx context.Context, req *model.Request, yield func(model.Part, error) bool) {
			for range 3 { // a keepalive counts, although it contains no part
				<-time.After(time.Minute + 59*time.Second)
				req.Alive()
			}
			<-time.After(time.Minute + 59*time.Second)
			if !yield(model.Part{Kind: model.KindText, Text: "Well"}, nil) { // so does a part
				return
			}
			<-ctx.Done()
			yield(model.Part{}, context.Cause(ctx))
		})
		begin := time.Now()
		got := newSetup(m).run(t.Context(), t, "")
		var upstream *model.Error
		require.ErrorAs(t, got.err, &upstream)
		require.Equal(t, model.Code(runvalue.ErrorTypeTimeout), upstream.Code)
		require.Equal(t, "the model sent nothing for 2m0s", upstream.Message)
		require.Equal(t, 4*(time.Minute+59*time.Second)+2*time.Minute, time.Since(begin))
		require.Equal(t, "Well", got.outcome.Text)
	})
}

func TestSlowClientIsNotAnIdleModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := turns([]model.Part{
			{Kind: model.KindText, Text: "a", More: true}, {Kind: model.KindText, Text: "b"}, {Kind: model.KindText, Text: "c"},
			{Kind: model.KindStop, StopReason: model.StopEndTurn},
		})
		s := newSetup(m)
		e, err := engine.New(s.Config)
		require.NoError(t, err)
		held, err := s.store.Open(t.Context(), "agent", "")
		require.NoError(t, err)
		s.input.Session = held
		for _, err := range start(e, s.input).Events(t.Context()) {
			require.NoError(t, err)
			<-time.After(5 * time.Minute)
		}
	})
}

func TestLongConversationsAllocateLinearly(t *testing.T) {
	for name, role := range map[string]model.Role{"roles that alternate": model.RoleAssistant, "one role": model.RoleUser} {
		t.Run(name, func(t *testing.T) {
			const messages = 4000
			s := newSetup(turns(says("Hi.")))
			e, err := engine.New(s.Config)
			require.NoError(t, err)
			held, err := s.store.Open(t.Context(), "agent", "")
			require.NoError(t, err)
			for i := range messages {
				m := model.UserText("x")
				if i%2 == 1 {
					m.Role = role
				}
				require.NoError(t, held.Append(t.Context(), m))
			}
			s.input.Session = held
			// Allocations grow linearly with the messages: a message is 40 bytes
			// and its block 176, and each is copied a few times at the most.
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for _, err := range start(e, s.input).Events(t.Context()) {
				require.NoError(t, err)
			}
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(messages*4000))
		})
	}
}

func TestRunTimeout(t *testing.T) {
	for name, row := range map[string]struct{ own, given, want time.Duration }{
		"by default":                 {0, 0, 30 * time.Minute},
		"tightened by the request":   {time.Hour, time.Second, time.Second},
		"not widened by the request": {time.Second, time.Hour, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := inProcess(func(ctx context.Context, req *model.Request, yield func(model.Part, error) bool) {
					for ctx.Err() == nil {
						req.Alive()
						select {
						case <-time.After(time.Minute):
						case <-ctx.Done():
						}
					}
					yield(model.Part{}, context.Cause(ctx))
				})
				s := newSetup(m)
				s.RunTimeout, s.input.Timeout = row.own, row.given
				begin := time.Now()
				got := s.run(t.Context(), t, "")
				require.ErrorIs(t, got.err, engine.ErrRunTimeout)
				require.Equal(t, row.want, time.Since(begin))
			})
		})
	}
}

// lines records the events of a run, and each flush that has something to send.
type lines []string

func (l *lines) Emit(p wire.Payload) { *l = append(*l, short(wire.Event{Payload: p})) }

func (l *lines) Flush() {
	if n := len(*l); n > 0 && (*l)[n-1] != "flush" && (*l)[n-1] != "call" {
		*l = append(*l, "flush")
	}
}

func TestFlushBeforeAWait(t *testing.T) {
	m := turns([]model.Part{
		{Kind: model.KindText, Text: "a", More: true},
		{Kind: model.KindText, Text: "b", More: true},
		{Kind: model.KindUsage}, // no event, and nothing behind it
		{Kind: model.KindUsage},
		{Kind: model.KindStop, StopReason: model.StopEndTurn, More: true},
	})
	s := newSetup(m)
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	s.input.Session, err = s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	got := &lines{}
	_, err = e.Run(t.Context(), s.input, got)
	require.NoError(t, err)
	require.Equal(t, lines{`partial text "a"`, `partial text "b"`, "flush", "assistant end_turn 1 blocks"}, *got)
}

func TestEventsAreFlushedBeforeEachCallOfTheModel(t *testing.T) {
	got := &lines{}
	replies := turns(says("A summary."), calls("greet"), says("Done."))
	s := newSetup(inProcess(func(ctx context.Context, req *model.Request, yield func(model.Part, error) bool) {
		*got = append(*got, "call")
		for part, err := range replies.Stream(ctx, req) {
			if !yield(part, err) {
				return
			}
		}
	}), greet(true))
	s.ContextWindow = 1000
	s.input.Init, s.input.Partials = &wire.Init{}, false
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	s.input.Session, err = s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	for range 4 {
		require.NoError(t, s.input.Session.Append(t.Context(), model.UserText(strings.Repeat("x", 1000))))
		require.NoError(t, s.input.Session.Append(t.Context(),
			model.Message{Role: model.RoleAssistant, Content: []model.Block{{Type: model.BlockText, Text: "Yes."}}}))
	}
	_, err = e.Run(t.Context(), s.input, got)
	require.NoError(t, err)
	require.Equal(t, lines{
		"system init ", "flush", "call",
		"system compact_boundary ", "flush", "call",
		"assistant tool_use 1 blocks", "flush", `tool_result t1 false "Hello, "`, "flush", "call",
		"assistant end_turn 1 blocks",
	}, *got)
}

func TestLongPartsAreSplit(t *testing.T) {
	text := strings.Repeat("é", 1<<20)
	s := newSetup(turns(says(text)))
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	held, err := s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	s.input.Session = held
	var joined strings.Builder
	for ev, err := range start(e, s.input).Events(t.Context()) {
		require.NoError(t, err)
		if p, ok := ev.Payload.(*wire.PartialMessage); ok {
			require.LessOrEqual(t, len(p.Partial.Text), 512<<10)
			joined.WriteString(p.Partial.Text)
		}
	}
	require.Equal(t, text, joined.String())
}

// failing is a store whose disk is full from the second message on.
type failing struct{ session.Session }

var errDisk = errors.New("disk is full")

func (f failing) Append(ctx context.Context, m model.Message) error {
	if len(f.Messages()) > 0 {
		return errDisk
	}
	return f.Session.Append(ctx, m)
}

func TestSessionErrorFailsTheRun(t *testing.T) {
	s := newSetup(turns(says("Hi.")))
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	held, err := s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	s.input.Session = failing{held}
	for _, err = range start(e, s.input).Events(t.Context()) {
	}
	require.ErrorIs(t, err, errDisk)
}

func TestUnknownErrorOfTheModel(t *testing.T) {
	odd := errors.New("/var/run/model.sock: broken pipe")
	m := inProcess(func(_ context.Context, _ *model.Request, yield func(model.Part, error) bool) {
		yield(model.Part{}, odd)
	})
	got := newSetup(m).run(t.Context(), t, "")
	var upstream *model.Error
	require.ErrorAs(t, got.err, &upstream)
	require.Equal(t, model.Code(runvalue.ErrorTypeUnknown), upstream.Code)
	require.NotContains(t, upstream.Error(), "model.sock", "the cause is for the log")
	require.ErrorIs(t, got.err, odd)
}
