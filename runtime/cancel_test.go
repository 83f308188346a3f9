package runtime_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
)

func (b *bench) cancel(t *testing.T, runID string) response {
	t.Helper()
	return b.do(t, "POST", "/v1/runs/"+runID+"/cancel", "")
}

func TestCancelOfAStreamedRun(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("One"), modeltest.Hang()))
	b := serve(t, up, nil)
	s := b.open(t.Context(), t, `{"message":"hello"}`)
	id := s.until("system").data["runId"].(string)
	s.until("partial_message")

	res := b.cancel(t, strings.ToUpper(id))
	require.Equal(t, http.StatusAccepted, res.status)
	require.JSONEq(t, `{"runId":"`+id+`","state":"cancelling"}`, res.body)
	all := s.rest()
	require.Equal(t, []string{"cancelled", "done"}, names(all), "no result")
	estimated(t, all[0].data["usage"], 10, 1)
	delete(all[0].data, "usage")
	require.Equal(t, map[string]any{"type": "cancelled", "runId": id, "reason": "client_request"}, all[0].data)
	_, early := up.Requests()[0].End()
	require.True(t, early, "the upstream connection is closed")

	res = b.cancel(t, id)
	require.Equal(t, http.StatusAccepted, res.status)
	require.JSONEq(t, `{"runId":"`+id+`","state":"cancelled","reason":"client_request"}`, res.body)
}

// The usage of a cancelled run is that of its complete messages, of its subagents and of the
// message that was cut.
func TestUsageOfACancelledRun(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "Task", `{"description":"d","prompt":"p","subagent_type":"s"}`)),
		modeltest.Stream(modeltest.Text("Done.")),
		modeltest.Stream(modeltest.Text("Half"), modeltest.Hang()))
	b := serve(t, up, func(c *runtime.Config) {
		c.Agents[0].Subagents = map[string]agent.Subagent{"s": {Description: "d", Prompt: "p"}}
	})
	s := b.open(t.Context(), t, `{"message":"hello"}`)
	id := s.until("system").data["runId"].(string)
	s.until("partial_message")
	s.until("tool_result")
	s.until("partial_message")
	b.cancel(t, id)
	estimated(t, s.until("cancelled").data["usage"], 30, 11)
}

func TestCancelOfABlockingRun(t *testing.T) {
	const id = "4a6f1b2c-3d4e-4f50-a6b7-c8d9e0f1a2b3"
	// The second request shows that the first response was read, with its usage. What a response that
	// is not complete has sent may be unread when the cancel arrives.
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "Glob", `{"pattern":"*"}`)),
		modeltest.Stream(modeltest.Hang()))
	b := serve(t, up, nil)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		up.Await(t, 2)
		b.cancel(t, id)
	}()
	res, run := b.blocking(t, `{"message":"hello","runId":"`+id+`"}`)
	<-answered
	require.Equal(t, http.StatusOK, res.status)
	require.Equal(t, id, run.RunID)
	require.EqualValues(t, "cancelled", run.State)
	require.EqualValues(t, "client_request", run.Reason)
	require.True(t, run.Usage.Estimated)
	require.EqualValues(t, 5, run.Usage.OutputTokens)
	require.Greater(t, run.Usage.InputTokens, int64(10))
	require.Empty(t, run.Error)
	_, early := up.Requests()[1].End()
	require.True(t, early)
}

func TestCancelOfARunThatHasEnded(t *testing.T) {
	b := serve(t, nil, nil)
	_, run := b.blocking(t, `{"message":"hello"}`)
	res := b.cancel(t, run.RunID)
	require.Equal(t, http.StatusConflict, res.status)
	require.JSONEq(t, `{"runId":"`+run.RunID+`","state":"completed"}`, res.body)
}

func TestCancelledStateFollowsTheEndOfTheRun(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	var cause error
	slow := tool.New(tool.Spec{Name: "slow", ReadOnly: true}, func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		close(started)
		<-ctx.Done()
		cause = context.Cause(ctx)
		<-release
		return tool.Result{}, cause
	})
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "slow", `{}`)))
	b := serve(t, up, func(c *runtime.Config) { c.Tools = []tool.Tool{slow} })
	s := b.open(t.Context(), t, `{"message":"hello"}`)
	id := s.until("system").data["runId"].(string)
	s.until("assistant")
	<-started
	require.JSONEq(t, `{"runId":"`+id+`","state":"cancelling"}`, b.cancel(t, id).body)
	require.JSONEq(t, `{"runId":"`+id+`","state":"cancelling","reason":"client_request"}`, b.cancel(t, id).body,
		"a repeated cancel returns the reason")
	close(release)
	require.Equal(t, []string{"cancelled", "done"}, names(s.rest()))
	require.Error(t, cause)
	require.JSONEq(t, `{"runId":"`+id+`","state":"cancelled","reason":"client_request"}`, b.cancel(t, id).body)
}

// full is a store whose sessions take no message of the model.
type full struct{ session.Store }

type fullSession struct{ session.Session }

func (f full) Open(ctx context.Context, agentID, id string) (session.Session, error) {
	s, err := f.Store.Open(ctx, agentID, id)
	return fullSession{s}, err
}

func (s fullSession) Append(ctx context.Context, m model.Message) error {
	if m.Role == model.RoleAssistant {
		return errors.New("the disk is full")
	}
	return s.Session.Append(ctx, m)
}

func TestUsageOfAnInternalError(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("One.")))
	b := serve(t, up, func(c *runtime.Config) { c.Sessions = full{session.NewMemory(session.MemoryConfig{})} })
	require.Equal(t, usage(10, 5, 0, 0), b.open(t.Context(), t, `{"message":"hello"}`).until("error").data["usage"])
}

// stuckStore has sessions of which the Close of the first few hangs.
type stuckStore struct {
	session.Store
	hanging int64
	open    chan struct{} // the ones that hang return when it is closed
	closing atomic.Int64
}

type stuckSession struct {
	session.Session
	store *stuckStore
}

func (s *stuckStore) Open(ctx context.Context, agentID, id string) (session.Session, error) {
	opened, err := s.Store.Open(ctx, agentID, id)
	return stuckSession{opened, s}, err
}

func (s stuckSession) Close() error {
	if s.store.closing.Add(1) <= s.store.hanging {
		<-s.store.open
	}
	return s.Session.Close()
}

// Runs that are cancelled together all stop, and a store that hangs for some of them does not hold
// the ends of the others.
func TestRunsCancelledTogether(t *testing.T) {
	const together, hanging = 12, 6
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("One"), modeltest.Hang())))
	store := &stuckStore{Store: session.NewMemory(session.MemoryConfig{}), hanging: hanging, open: make(chan struct{})}
	b := serve(t, up, func(c *runtime.Config) { c.Sessions = store })
	release := sync.OnceFunc(func() { close(store.open) })
	defer release()
	var streams []*stream
	var ids []string
	for range together {
		s := b.open(t.Context(), t, `{"message":"hello"}`)
		id := s.until("system").data["runId"].(string)
		s.until("partial_message")
		streams = append(streams, s)
		ids = append(ids, id)
		require.Contains(t, b.cancel(t, id).body, `"state":"cancelling"`)
	}
	for _, request := range up.Requests() {
		_, early := request.End()
		require.True(t, early)
	}
	ended := func() (n int) {
		for _, id := range ids {
			if strings.Contains(b.cancel(t, id).body, `"state":"cancelled"`) {
				n++
			}
		}
		return n
	}
	for limit := time.Now().Add(time.Minute); ended() < together-hanging; {
		require.True(t, time.Now().Before(limit), "the other runs do not end")
	}
	require.Equal(t, together-hanging, ended())
	release()
	for _, s := range streams {
		require.Equal(t, []string{"cancelled", "done"}, names(s.rest()))
	}
	require.Equal(t, together, ended())
}

// awaitEnd waits until the log reports the end of a run.
func (b *bench) awaitEnd(ctx context.Context, t *testing.T) string {
	t.Helper()
	for ctx.Err() == nil {
		for line := range strings.Lines(b.log.String()) {
			if strings.Contains(line, `"msg":"run"`) {
				return line
			}
		}
		// The requests to the server take time, so no sleep is needed.
		b.do(t, "GET", "/health", "")
	}
	require.Fail(t, "no run has ended", b.log.String())
	return ""
}

func TestDisconnectCancelsTheRun(t *testing.T) {
	for name, row := range map[string]struct {
		reply  modeltest.Reply
		accept string
		after  string // the event after which the client disconnects; "" before any event
	}{
		"before the first token of the model": {modeltest.Stream(modeltest.Hang()), "text/event-stream", "system"},
		"in mid-stream": {modeltest.Stream(modeltest.Text("One"), modeltest.Hang()), "text/event-stream",
			"partial_message"},
		"in a tool":         {modeltest.Stream(modeltest.ToolCall("t1", "slow", `{}`)), "text/event-stream", "assistant"},
		"of a blocking run": {modeltest.Stream(modeltest.Text("One"), modeltest.Hang()), "application/json", ""},
	} {
		t.Run(name, func(t *testing.T) {
			up := modeltest.Start(t, modeltest.Anthropic, row.reply)
			slow := tool.New(tool.Spec{Name: "slow", ReadOnly: true}, func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				<-ctx.Done()
				return tool.Result{}, ctx.Err()
			})
			b := serve(t, up, func(c *runtime.Config) { c.Tools = []tool.Tool{slow} })
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			if row.after != "" {
				s := b.open(ctx, t, `{"message":"hello"}`, "Accept", row.accept)
				s.until(row.after)
				up.Await(t, 1) // init comes before the model is called
				leave()
			} else {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+runs, strings.NewReader(`{"message":"hello"}`))
				require.NoError(t, err)
				req.Header.Set("Accept", row.accept)
				go func() { up.Await(t, 1); leave() }()
				_, err = http.DefaultClient.Do(req)
				require.ErrorIs(t, err, context.Canceled)
			}
			line := b.awaitEnd(t.Context(), t)
			require.Contains(t, line, `"state":"cancelled"`)
			require.Contains(t, line, `"reason":"disconnect"`)
			_, early := up.Await(t, 1).End()
			require.Equal(t, name != "in a tool", early, "no upstream connection is left")
		})
	}
}

func TestStalledClientCancelsTheRun(t *testing.T) {
	text := strings.Repeat("x", 1000)
	tokens := make([]string, 8_000) // more than the buffer of a socket holds
	for i := range tokens {
		tokens[i] = text
	}
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text(tokens...), modeltest.Hang()))
	b := serve(t, up, func(c *runtime.Config) { c.WriteTimeout = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = io.WriteString(conn, "POST "+runs+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 19\r\n\r\n{\"message\":\"hello\"}")
	require.NoError(t, err)
	line := b.awaitEnd(t.Context(), t) // the client does not read
	require.Contains(t, line, `"reason":"disconnect"`)
	_, early := up.Requests()[0].End()
	require.True(t, early)
}

func TestConcurrentCancelReasons(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("One"), modeltest.Hang())))
	b := serve(t, up, nil)
	for range 20 {
		ctx, leave := context.WithCancel(t.Context())
		s := b.open(ctx, t, `{"message":"hello"}`)
		id := s.until("system").data["runId"].(string)
		var both sync.WaitGroup
		both.Go(leave)
		both.Go(func() { b.cancel(t, id) })
		both.Wait()
		first := b.cancel(t, id)
		require.Equal(t, http.StatusAccepted, first.status)
		require.Contains(t, first.body, `"reason"`)
		_, reason, _ := strings.Cut(first.body, `"reason"`)
		require.Contains(t, b.cancel(t, id).body, reason, "the first one stays")
	}
}

func TestDrain(t *testing.T) {
	gate := make(chan struct{})
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.Gate(gate), modeltest.Text("Hi.")),
		modeltest.Stream(modeltest.Text("One"), modeltest.Hang()))
	b := serve(t, up, nil)
	quick := b.open(t.Context(), t, `{"message":"hello"}`)
	up.Await(t, 1)
	slow := b.open(t.Context(), t, `{"message":"hello"}`)
	up.Await(t, 2)

	ctx, impatient := context.WithCancel(t.Context())
	defer impatient()
	drained := make(chan error, 1)
	go func() { drained <- b.Drain(ctx) }()
	for b.do(t, "GET", "/health/ready", "").status == http.StatusOK {
	}
	res := b.do(t, "GET", "/health/ready", "")
	require.Equal(t, http.StatusServiceUnavailable, res.status)
	require.JSONEq(t, `{"status":"draining"}`, res.body)
	res = b.do(t, "POST", runs, `{"message":"hello"}`)
	require.Equal(t, http.StatusServiceUnavailable, res.status)
	require.JSONEq(t, `{"error":"Draining"}`, res.body)
	require.Equal(t, http.StatusOK, b.do(t, "GET", "/health", "").status)

	close(gate)
	all := quick.rest()
	require.Equal(t, "success", all[len(all)-2].data["subtype"], "runs in flight come to their end")
	impatient()
	all = slow.rest()
	require.Equal(t, []string{"cancelled", "done"}, names(all[len(all)-2:]))
	require.Equal(t, "shutdown", all[len(all)-2].data["reason"])
	require.NoError(t, <-drained)
}

func TestCloseReleasesEverything(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("One"), modeltest.Hang()))
	b := serve(t, up, nil)
	s := b.open(t.Context(), t, `{"message":"hello"}`)
	s.until("partial_message")
	require.NoError(t, b.Close())
	require.Equal(t, "shutdown", s.until("cancelled").data["reason"])
	s.until("done")
	_, err := s.events.Next()
	require.ErrorIs(t, err, io.EOF)
}
