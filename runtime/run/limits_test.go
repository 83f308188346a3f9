package run_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestAThousandRunsByDefault(t *testing.T) {
	g := run.New(run.Config{})
	all := make([]*run.Run, 1000)
	for i := range all {
		all[i] = started(t, g)
	}
	require.Equal(t, 1000, g.Active())
	more, err := g.Claim(t.Context(), ids.Random())
	require.NoError(t, err)
	defer more.Release()
	require.ErrorIs(t, more.Start(), run.ErrTooMany)
	all[0].Finish(wire.StateCompleted)
	require.NoError(t, more.Start(), "there is a place again")
	more.Finish(wire.StateCompleted)
	for _, r := range all[1:] {
		r.Finish(wire.StateCompleted)
	}
}

func TestTimesByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := run.New(run.Config{})
		r := started(t, g)
		r.Finish(wire.StateCompleted)
		<-time.After(5*time.Minute - time.Nanosecond)
		_, err := g.Cancel(r.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, run.ErrEnded)
		<-time.After(time.Nanosecond)
		_, err = g.Cancel(r.ID(), wire.ReasonClientRequest)
		require.ErrorIs(t, err, run.ErrNotFound)
	})
}
