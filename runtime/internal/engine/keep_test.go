package engine_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// slow is a session that stores the first message slowly.
type slow struct {
	session.Session
	first func() error // called before the first message is stored
}

func (s slow) Append(ctx context.Context, m model.Message) error {
	if len(s.Messages()) == 0 {
		if err := s.first(); err != nil {
			return err
		}
	}
	return s.Session.Append(ctx, m)
}

// runSlow runs with a model that closes asked when it is called.
func runSlow(t *testing.T, asked chan struct{}, first func() error, each func(wire.Event, session.Session)) error {
	t.Helper()
	s := newSetup(inProcess(func(_ context.Context, _ *model.Request, yield func(model.Part, error) bool) {
		close(asked)
		if yield(model.Part{Kind: model.KindText, Text: "Hi."}, nil) {
			yield(model.Part{Kind: model.KindStop, StopReason: model.StopEndTurn}, nil)
		}
	}))
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	held, err := s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	s.input.Session = slow{held, first}
	for ev, err := range start(e, s.input).Events(t.Context()) {
		if err != nil {
			return err
		}
		each(ev, held)
	}
	require.Len(t, held.Messages(), 2)
	return nil
}

// TestTheModelDoesNotWaitForTheDisk would hang if the message were stored before the model is
// called.
func TestTheModelDoesNotWaitForTheDisk(t *testing.T) {
	asked := make(chan struct{})
	err := runSlow(t, asked, func() error { <-asked; return nil }, func(_ wire.Event, held session.Session) {
		require.NotEmpty(t, held.Messages(), "the message is stored before an event of the response")
	})
	require.NoError(t, err)
}

func TestNoResponseToAMessageThatIsNotStored(t *testing.T) {
	for name, first := range map[string]func() error{
		"error": func() error { return errDisk },
		"panic": func() error { panic(errDisk) },
	} {
		t.Run(name, func(t *testing.T) {
			err := runSlow(t, make(chan struct{}), first, func(ev wire.Event, _ session.Session) {
				require.Fail(t, "an event came", "%v", ev)
			})
			require.ErrorContains(t, err, errDisk.Error())
		})
	}
}

// The caller closes the session when Run returns, so Run waits for the message to be stored even if
// it ends before the model is called.
func TestACancelledRunWaitsForItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := newShelf("silent", tool.Pending, func(ctx context.Context) (*tool.List, error) { <-ctx.Done(); return nil, ctx.Err() })
		s := newSetup(inProcess(func(context.Context, *model.Request, func(model.Part, error) bool) {
			require.Fail(t, "the model is called")
		}))
		s.Servers = []tool.Server{silent}
		e, err := engine.New(s.Config)
		require.NoError(t, err)
		held, err := s.store.Open(t.Context(), "agent", "")
		require.NoError(t, err)
		stored := make(chan struct{})
		s.input.Session = slow{held, func() error { <-stored; return nil }}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := e.Run(ctx, s.input, engine.OutputFunc(func(wire.Payload) {}))
			ended <- err
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		require.Empty(t, ended, "the run does not end before its message is stored")
		close(stored)
		require.ErrorIs(t, <-ended, context.Canceled)
		require.NoError(t, held.Close())
	})
}
