package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/wire"
)

func TestOpenReturnsEventsAsTheyWereSent(t *testing.T) {
	srv := listen(t, host(t, talker(t), nil))
	c := connect(t, srv.URL)
	for range 2 {
		s, err := c.Open(t.Context(), "helper", hello)
		require.NoError(t, err)
		var names []string
		text := ""
		for {
			ev, err := s.Next()
			require.NoError(t, err)
			names, text = append(names, ev.Type), text+string(ev.Data)
			if ev.Type == "done" {
				break
			}
		}
		require.Equal(t, []string{"system", "partial_message", "assistant", "result", "done"}, names)
		require.Contains(t, text, `{"type":"partial_message","partial":{"type":"text","text":"Hi."}}`)
		require.Greater(t, s.Received(), int64(len(text)))
		require.NoError(t, s.Close())
	}
	require.EqualValues(t, 1, srv.connections.Load(), "the connection is used again")
}

func TestOpenReturnsTheErrorOfTheRuntime(t *testing.T) {
	c := at(t, talker(t))
	_, err := c.Open(t.Context(), "nobody", hello)
	failed, ok := errors.AsType[*client.Error](err)
	require.True(t, ok)
	require.Equal(t, 404, failed.Status)
}

func TestClosingAStreamCancelsItsRun(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("a"), modeltest.Hang()))
	c := at(t, up)
	ctx, cancel := context.WithCancelCause(t.Context())
	s, err := c.Open(ctx, "helper", wire.RunRequest{Message: "hello"})
	require.NoError(t, err)
	for ev, err := s.Next(); ev.Type != "partial_message"; ev, err = s.Next() {
		require.NoError(t, err)
	}
	cause := errors.New("enough")
	cancel(cause)
	_, err = s.Next()
	require.ErrorIs(t, err, cause)
	require.NoError(t, s.Close())
	<-up.Await(t, 1).Closed()
}
