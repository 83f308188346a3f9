package natsbus_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/run/bustest"
	"github.com/seed93082962/agenthost/runtime/run/natsbus"
)

// An entry that another program has written is an error, not a state.
func TestForeignEntries(t *testing.T) {
	s := serve(t, t.TempDir(), nil)
	bus := open(t, url(s, "", "/b"))
	conn, err := nats.Connect(url(s, "", ""))
	require.NoError(t, err)
	defer conn.Close()
	owner := `{"owner":"` + ids.Random().String() + `"`
	for text, replaced := range map[string]bool{ // by the owner of the run
		"x": true, "{}": true, `{"owner":1}`: true, `{"owner":"*"}`: true, `[]`: true, owner + `,"state":1}`: true,
		owner + `,"state":"paused"}`: false, owner + `,"reason":"other"}`: false,
	} {
		id := ids.Random()
		_, err = conn.Request("$KV.b."+id.String(), []byte(text), bustest.Limit)
		require.NoError(t, err)
		e, err := bus.Get(t.Context(), id)
		require.ErrorIs(t, err, run.ErrMalformed, text)
		require.ErrorContains(t, err, "read entry: ")
		require.Equal(t, replaced, e.Revision != 0, text)
		_, err = bus.Put(t.Context(), id, run.Claim{Owner: ids.Random(), Revision: e.Revision}, time.Minute)
		require.Equal(t, replaced, err == nil, text)
		if !replaced {
			require.ErrorIs(t, err, run.ErrChanged)
		}
	}
}

// The entry that Open stores does not expire within the 5 s that Open may take, and is deleted.
func TestOpenLeavesNoEntry(t *testing.T) {
	s := serve(t, t.TempDir(), nil)
	conn, err := nats.Connect(url(s, "", ""))
	require.NoError(t, err)
	defer conn.Close()
	entries, err := conn.SubscribeSync("$KV.b.>")
	require.NoError(t, err)
	require.NoError(t, conn.Flush())
	open(t, url(s, "", "/b"))
	stored, err := entries.NextMsg(bustest.Limit)
	require.NoError(t, err)
	require.Equal(t, "5s", stored.Header.Get(jetstream.MsgTTLHeader))
	stream, err := connect(t, url(s, "", "")).Stream(t.Context(), "KV_b")
	require.NoError(t, err)
	require.EqualValues(t, 2, stream.CachedInfo().State.LastSeq)
	m, err := stream.GetMsg(t.Context(), 2)
	require.NoError(t, err)
	require.Empty(t, m.Data, "the second message deletes the first one")
}

// The time of an entry is rounded up to a second, the unit of the server.
func TestTimesToLive(t *testing.T) {
	s := serve(t, t.TempDir(), nil)
	bus := open(t, url(s, "", "/b"))
	stream, err := connect(t, url(s, "", "")).Stream(t.Context(), "KV_b")
	require.NoError(t, err)
	for ttl, want := range map[time.Duration]string{
		-time.Second: "1s", 0: "1s", 1: "1s", time.Second: "1s", time.Second + 1: "2s", 1500 * time.Millisecond: "2s",
		2 * time.Second: "2s", 30 * time.Second: "30s", 5*time.Minute - 1: "5m0s", 5 * time.Minute: "5m0s",
	} {
		id := ids.Random()
		_, err = bus.Put(t.Context(), id, run.Claim{Owner: id}, ttl)
		require.NoError(t, err)
		m, err := stream.GetLastMsgForSubject(t.Context(), "$KV.b."+id.String())
		require.NoError(t, err)
		require.Equal(t, want, m.Header.Get(jetstream.MsgTTLHeader), ttl)
	}
}

// A closed bus fails, and reports that it receives no notifications.
func TestAClosedBus(t *testing.T) {
	var logs logtest.Buffer
	cfg, err := natsbus.Parse(url(serve(t, t.TempDir(), nil), "", ""))
	require.NoError(t, err)
	cfg.Logger = slog.New(slog.NewTextHandler(&logs, nil))
	bus, err := natsbus.Open(t.Context(), cfg)
	require.NoError(t, err)
	require.Empty(t, logs.String())
	bus.Close()
	id := ids.Random()
	stop := bus.Listen(id, func(run.ID) {})
	stop()
	require.Contains(t, logs.String(), "notifications are not received")
	_, err = bus.Get(t.Context(), id)
	require.ErrorContains(t, err, "read entry: ")
	_, err = bus.Put(t.Context(), id, run.Claim{}, time.Minute)
	require.ErrorContains(t, err, "store entry: ")
	require.ErrorContains(t, bus.Delete(t.Context(), id, 1), "delete entry: ")
	require.ErrorContains(t, bus.Notify(t.Context(), id, id), "notify owner: ")
}

// A notification without the id of a run is ignored. One that expects no response is passed on.
func TestForeignNotifications(t *testing.T) {
	s := serve(t, t.TempDir(), nil)
	var logs logtest.Buffer
	cfg, err := natsbus.Parse(url(s, "", "/b"))
	require.NoError(t, err)
	cfg.Logger = slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	bus, err := natsbus.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer bus.Close()
	owner, id, silent := ids.Random(), ids.Random(), ids.Random()
	notified := make(chan run.ID, 3)
	defer bus.Listen(owner, func(id run.ID) { notified <- id })()
	_, err = bus.Get(t.Context(), id) // after the response, the server has the subscription
	require.NoError(t, err)
	conn, err := nats.Connect(url(s, "", ""))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Publish("agenthost.b."+owner.String(), []byte("x")))
	for range 2 {
		_, err = conn.Request("agenthost.b."+owner.String(), []byte(id.String()), bustest.Limit)
		require.NoError(t, err)
		require.Len(t, notified, 1)
		require.Equal(t, id, <-notified)
	}
	require.Empty(t, logs.String())
	require.NoError(t, conn.Publish("agenthost.b."+owner.String(), []byte(silent.String())))
	bustest.Await(t, func() bool { return strings.Contains(logs.String(), "respond to a notification") })
	require.Equal(t, silent, <-notified)
}
