package mcp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// gate is a server over HTTP that blocks requests until it is opened, and counts the requests
// without a session.
type gate struct {
	next   http.Handler
	begins atomic.Int32
	open   chan struct{}
	gone   chan struct{} // receives a value for each request that was abandoned at the gate
}

func newGate(t *testing.T, next http.Handler) (*gate, agent.MCPServer) {
	g := &gate{next: next, open: make(chan struct{}), gone: make(chan struct{}, 100)}
	return g, overHTTP(web(t, g).URL)
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // the end of a connection is noticed only after its request was read
	if err != nil {
		g.gone <- struct{}{}
		return
	}
	if bytes.Contains(body, []byte("server/discover")) {
		g.begins.Add(1)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	select {
	case <-g.open:
		g.next.ServeHTTP(w, r)
	case <-r.Context().Done():
		g.gone <- struct{}{}
	}
}

func TestCallersShareOneAttempt(t *testing.T) {
	g, def := newGate(t, streamable(toolServer()))
	s := newWorld(t).open(def)
	errs := make(chan error, 9)
	leaves, leave := context.WithCancelCause(t.Context())
	for i := range cap(errs) {
		ctx := t.Context()
		if i == 0 {
			ctx = leaves
		}
		go func() {
			_, err := s.Tools(ctx)
			errs <- err
		}()
	}
	require.Eventually(t, func() bool { return g.begins.Load() == 1 }, long, time.Millisecond)
	require.Equal(t, tool.Pending, s.Status())
	gone := errors.New("this run is over")
	leave(gone)
	require.ErrorIs(t, <-errs, gone) // the other callers are not affected
	close(g.open)
	for range cap(errs) - 1 {
		require.NoError(t, <-errs)
	}
	require.EqualValues(t, 1, g.begins.Load())
}

func TestAttemptWithoutCallersIsAbandoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(stdio(t, "silent"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Tools(ctx)
		done <- err
	}()
	server, grandchild := w.pids("silent")[0], w.pids("sleeper")[0]
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Equal(t, tool.Pending, s.Status(), "the attempt has not failed")
	w.requireDead(server)
	w.requireDead(grandchild)
}

// expiring are the contexts of callers without time, and their causes. The first and the second are
// those of a call and of a run of the engine.
var expiring = map[string]struct {
	within func(ctx context.Context, d time.Duration) context.Context
	cause  error
}{
	"the time of a call": {func(ctx context.Context, d time.Duration) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(d, func() { cancel(errCallTime) })
		return ctx
	}, errCallTime},
	"the time of a run": {func(ctx context.Context, d time.Duration) context.Context {
		ctx, cancel := context.WithTimeoutCause(ctx, d, errRunTime)
		context.AfterFunc(ctx, cancel)
		ctx, end := context.WithCancelCause(ctx)
		context.AfterFunc(ctx, func() { end(nil) })
		return ctx
	}, errRunTime},
	"a deadline": {func(ctx context.Context, d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(ctx, d)
		context.AfterFunc(ctx, cancel)
		return ctx
	}, context.DeadlineExceeded},
}

var (
	errCallTime = fmt.Errorf("the call took too long: %w", context.DeadlineExceeded)
	errRunTime  = errors.New("the run took too long")
)

// After the time of its only caller, an attempt continues: its result is for the next caller.
func TestAttemptOutlivesACallerWithoutTime(t *testing.T) {
	for name, row := range expiring {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, def := newGate(t, streamable(toolServer()))
			s := newWorld(t).open(def)
			_, err := s.Tools(row.within(t.Context(), 50*time.Millisecond))
			require.ErrorIs(t, err, row.cause)
			require.Equal(t, tool.Pending, s.Status())
			close(g.open)
			requireStatus(t, s, tool.Connected)
			require.EqualValues(t, 1, g.begins.Load())
		})
	}
}

func TestAttemptEndsAtTheTimeout(t *testing.T) {
	g, def := newGate(t, nil)
	for limit := 100 * time.Millisecond; g.begins.Load() == 0; limit *= 2 { // until a request arrives in time
		s := newWorld(t).within(limit).open(def)
		_, err := s.Tools(t.Context())
		require.EqualError(t, err, "mcp server test: the server did not respond in time")
		require.Equal(t, tool.Failed, s.Status())
	}
	<-g.gone
}

func TestCloseEndsAnAttempt(t *testing.T) {
	g, def := newGate(t, nil)
	s := newWorld(t).open(def)
	done := make(chan error, 1)
	go func() {
		_, err := s.Tools(context.Background())
		done <- err
	}()
	require.Eventually(t, func() bool { return g.begins.Load() == 1 }, long, time.Millisecond)
	require.NoError(t, s.Close())
	require.EqualError(t, <-done, "mcp server test: the server was closed")
	<-g.gone
}

func TestServerThatFailedIsTriedAgainLater(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	var tries atomic.Int32
	handler := streamable(toolServer())
	s := newWorld(t).open(overHTTP(web(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries.Add(1); !up.Load() {
			http.Error(w, "not yet", http.StatusBadGateway)
			return
		}
		handler.ServeHTTP(w, r)
	})).URL))
	for range 20 {
		_, err := s.Tools(t.Context())
		require.ErrorContains(t, err, "Bad Gateway")
		require.Equal(t, tool.Failed, s.Status())
	}
	require.EqualValues(t, 2, tries.Load(), "server/discover and initialize")
	up.Store(true)
	require.Eventually(t, func() bool {
		_, err := s.Tools(t.Context())
		return err == nil
	}, long, 10*time.Millisecond)
	require.Equal(t, tool.Connected, s.Status())
}

func TestCancelReachesTheServer(t *testing.T) {
	for name, def := range carried {
		if name == "http without sessions" { // the server cannot know which call is cancelled
			continue
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			t.Chdir(w.dir) // the servers in this process write their files there
			s := w.open(def(t))
			wait := find(t, s, "wait")
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := wait.Call(ctx, tool.Call{Input: []byte(`{}`)})
				done <- err
			}()
			exists := func(name string) func() bool {
				return func() bool {
					_, err := os.Stat(filepath.Join(w.dir, name))
					return err == nil
				}
			}
			require.Eventually(t, exists("waiting"), long, time.Millisecond)
			stop := errors.New("the user cancelled the run")
			cancel(stop)
			require.ErrorIs(t, <-done, stop)
			require.Eventually(t, exists("cancelled"), long, time.Millisecond)
			require.Equal(t, "on", call(t, find(t, s, "echo"), `{"text":"on"}`).Output)
		})
	}
}

func TestCallOfADeafServerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newWorld(t).open(stdio(t, "tools"))
	deaf := find(t, s, "deaf")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := deaf.Call(ctx, tool.Call{Input: []byte(`{}`)})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(began), 30*time.Second)
	require.Equal(t, "on", call(t, find(t, s, "echo"), `{"text":"on"}`).Output)

	done := make(chan tool.Result, 1)
	go func() {
		res, _ := deaf.Call(context.Background(), tool.Call{Input: []byte(`{}`)})
		done <- res
	}()
	require.NoError(t, s.Close()) // ends the call
	require.True(t, (<-done).IsError)
}

func TestChangedListIsListedAgain(t *testing.T) {
	for name, def := range carried {
		if name == "http without sessions" { // there is no stream for the notification
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).open(def(t))
			before := list(t, s)
			call(t, find(t, s, "grow"), `{"text":"zz"}`)
			var after []tool.Tool
			require.Eventually(t, func() bool {
				after = list(t, s)
				return len(after) == len(before)+1
			}, long, time.Millisecond)
			require.NotContains(t, names(before), "mcp__test__zz", "the old slice is unchanged")
			require.Equal(t, tool.Result{Output: "new"}, call(t, find(t, s, "zz"), `{}`))
			require.Same(t, &after[0], &list(t, s)[0])
		})
	}
}

func TestListThatFailsTheSecondTimeStays(t *testing.T) {
	server := toolServer()
	var down atomic.Bool
	var lists atomic.Int32
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "tools/list" && down.Load() {
				lists.Add(1)
				return nil, errors.New("no list today")
			}
			return next(ctx, method, req)
		}
	})
	w := newWorld(t)
	s := w.open(overHTTP(web(t, streamable(server)).URL))
	before := list(t, s)
	down.Store(true)
	call(t, find(t, s, "grow"), `{"text":"zz"}`)
	require.Eventually(t, func() bool {
		require.Same(t, &before[0], &list(t, s)[0])
		return lists.Load() > 0
	}, long, time.Millisecond)
	list(t, s)
	require.EqualValues(t, 1, lists.Load(), "it is not listed again immediately")
	require.Contains(t, w.log.String(), "no list today")
	require.Equal(t, tool.Connected, s.Status())
}

func TestManyConcurrentCalls(t *testing.T) {
	for name, def := range carried {
		t.Run(name, func(t *testing.T) {
			s := newWorld(t).open(def(t))
			echo := find(t, s, "echo")
			done := make(chan tool.Result, 50)
			for range cap(done) {
				go func() {
					res, _ := echo.Call(context.Background(), tool.Call{Input: []byte(`{"text":"x"}`)})
					done <- res
				}()
			}
			for range cap(done) {
				require.Equal(t, tool.Result{Output: "x"}, <-done)
			}
		})
	}
}
