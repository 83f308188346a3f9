package runtime_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// replicas starts two replicas of a runtime.
func replicas(t *testing.T, up *modeltest.Upstream) (one, two *bench) {
	t.Helper()
	bus := run.NewMemoryBus()
	connect := func(c *runtime.Config) { c.Bus = bus }
	return serve(t, up, connect), serve(t, up, connect)
}

func TestCancelAtAnotherReplica(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Text("One"), modeltest.Hang()), modeltest.Stream(modeltest.Text("Done.")))
	one, two := replicas(t, up)
	s := one.open(t.Context(), t, `{"message":"hello"}`)
	id := s.until("system").data["runId"].(string)
	s.until("partial_message")

	conflict := two.do(t, "POST", runs, `{"message":"hello","runId":"`+id+`"}`)
	require.Equal(t, http.StatusConflict, conflict.status)
	require.JSONEq(t, `{"error":"Run ID conflict","runId":"`+id+`"}`, conflict.body)

	res := two.cancel(t, strings.ToUpper(id))
	require.Equal(t, http.StatusAccepted, res.status)
	require.JSONEq(t, `{"runId":"`+id+`","state":"cancelling"}`, res.body)
	all := s.rest()
	require.Equal(t, []string{"cancelled", "done"}, names(all))
	require.Equal(t, "client_request", all[0].data["reason"])
	_, early := up.Requests()[0].End()
	require.True(t, early, "the upstream connection is closed")
	for _, b := range []*bench{one, two} {
		res = b.cancel(t, id)
		require.Equal(t, http.StatusAccepted, res.status)
		require.JSONEq(t, `{"runId":"`+id+`","state":"cancelled","reason":"client_request"}`, res.body)
	}

	_, completed := one.blocking(t, `{"message":"hello"}`)
	for _, b := range []*bench{one, two} {
		res = b.cancel(t, completed.RunID)
		require.Equal(t, http.StatusConflict, res.status)
		require.JSONEq(t, `{"runId":"`+completed.RunID+`","state":"completed"}`, res.body)
		require.Equal(t, http.StatusNotFound, b.cancel(t, "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3").status)
	}
	require.Equal(t, http.StatusConflict, two.do(t, "POST", runs, `{"message":"hello","runId":"`+completed.RunID+`"}`).status)
}

// A conversation moves between replicas as a hub does it: it sends the history to one that does not
// know the session, and continues with the session of that replica.
func TestAConversationWithReplicas(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Hello, Ada.")),
		modeltest.Stream(modeltest.Text("Ada.")), modeltest.Stream(modeltest.Text("Twice.")))
	one, two := replicas(t, up)
	_, first := one.blocking(t, `{"message":"I am Ada."}`)
	require.EqualValues(t, "completed", first.State)

	// The id of a rejected run is unused at every replica.
	const id = "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3"
	required := `{"runId":"` + id + `","requireSession":true,"sessionId":`
	res := two.do(t, "POST", runs, required+`"`+first.SessionID+`","message":"Who am I?"}`)
	require.Equal(t, http.StatusConflict, res.status)
	require.JSONEq(t, `{"error":"Unknown session","sessionId":"`+first.SessionID+`"}`, res.body)
	_, second := two.blocking(t, `{"runId":"`+id+`","message":"Who am I?","history":`+history+`}`)
	require.EqualValues(t, "completed", second.State)
	require.Equal(t, []string{"user: I am Ada.", "assistant: Hello, Ada.", "user: Who am I?"}, sentMessages(t, up.Requests()[1]))

	// The first replica has an older part of the conversation, under another id.
	require.NotEqual(t, first.SessionID, second.SessionID)
	res = one.do(t, "POST", runs, `{"requireSession":true,"sessionId":"`+second.SessionID+`","message":"Again?"}`)
	require.JSONEq(t, `{"error":"Unknown session","sessionId":"`+second.SessionID+`"}`, res.body)
	_, third := two.blocking(t, `{"requireSession":true,"sessionId":"`+second.SessionID+`","message":"Again?"}`)
	require.Equal(t, second.SessionID, third.SessionID)
	require.Len(t, sentMessages(t, up.Requests()[2]), 5)
}

// A session continues only after the run that its client knows.
func TestASessionThatHasChanged(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Hello."))))
	one, _ := replicas(t, up)
	_, first := one.blocking(t, `{"message":"a"}`)
	after := `{"sessionId":"` + first.SessionID + `","afterRunId":"` + first.RunID + `","message":"b"}`
	_, second := one.blocking(t, after)
	require.EqualValues(t, "completed", second.State)
	res := one.do(t, "POST", runs, after)
	require.Equal(t, http.StatusConflict, res.status)
	require.JSONEq(t, `{"error":"Session changed","sessionId":"`+first.SessionID+`"}`, res.body)
	require.Len(t, up.Requests(), 2)
	_, third := one.blocking(t, strings.Replace(after, first.RunID, second.RunID, 1))
	require.EqualValues(t, "completed", third.State)
}

// severed is a bus that can be made unavailable.
type severed struct {
	run.Bus
	away atomic.Bool
}

func (s *severed) Get(ctx context.Context, id run.ID) (run.Claim, error) {
	if s.away.Load() {
		return run.Claim{}, run.ErrUnavailable
	}
	return s.Bus.Get(ctx, id)
}

func (s *severed) Put(ctx context.Context, id run.ID, e run.Claim, ttl time.Duration) (uint64, error) {
	if s.away.Load() {
		return 0, run.ErrUnavailable
	}
	return s.Bus.Put(ctx, id, e, ttl)
}

func TestReplicasWithoutTheirBus(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("One"), modeltest.Hang())))
	bus := &severed{Bus: run.NewMemoryBus()}
	b := serve(t, up, func(c *runtime.Config) { c.Bus = bus })
	bus.away.Store(true)
	const id = "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3"
	res := b.cancel(t, id)
	require.Equal(t, http.StatusServiceUnavailable, res.status)
	require.JSONEq(t, `{"error":"Replicas unavailable"}`, res.body)
	require.Equal(t, "1", res.header.Get("Retry-After"))
	require.Equal(t, http.StatusNotFound, b.cancel(t, "malformed").status)
	require.Contains(t, b.do(t, "GET", "/health", "").body, `"status":"degraded"`)
	require.Equal(t, http.StatusOK, b.do(t, "GET", "/health/ready", "").status, "otherwise all replicas would leave their service")

	s := b.open(t.Context(), t, `{"message":"hello","runId":"`+id+`"}`)
	s.until("partial_message")
	require.Equal(t, http.StatusAccepted, b.cancel(t, id).status, "runs start and are cancelled")
	bus.away.Store(false)
	require.Equal(t, string(wire.ReasonClientRequest), s.until("cancelled").data["reason"])
	s.until("done")
	require.Contains(t, b.log.String(), "the bus is unavailable")
	healthy := func() bool { return strings.Contains(b.do(t, "GET", "/health", "").body, `"status":"ok"`) }
	require.Eventually(t, healthy, time.Minute, 20*time.Millisecond)
}
