package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model/demo"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// shelf is a server with tools of this process.
type shelf struct {
	name   string
	status atomic.Value // tool.Status
	list   func(ctx context.Context) (*tool.List, error)
}

func newShelf(name string, status tool.Status, list func(context.Context) (*tool.List, error)) *shelf {
	s := &shelf{name: name, list: list}
	s.status.Store(status)
	return s
}

func (s *shelf) Name() string                                  { return s.name }
func (s *shelf) Status() tool.Status                           { return s.status.Load().(tool.Status) }
func (s *shelf) Tools(ctx context.Context) (*tool.List, error) { return s.list(ctx) }
func (s *shelf) Fault() error                                  { return nil }
func (s *shelf) Close() error                                  { return nil }

func remote(name string) tool.Tool {
	return tool.New(tool.Spec{Name: name, Description: "Far away."}, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Output: "from " + name}, nil
	})
}

func TestServersAreConnectedBeforeTheFirstCall(t *testing.T) {
	list := &tool.List{Tools: []tool.Tool{remote("mcp__a__look"), remote("mcp__a__far")}}
	// Each waits for the other, so they must connect in parallel.
	met := make(chan struct{})
	a := newShelf("a", tool.Pending, func(context.Context) (*tool.List, error) { <-met; return list, nil })
	b := newShelf("b", tool.Pending, func(context.Context) (*tool.List, error) {
		close(met)
		return nil, errors.New("no such program")
	})
	m, up := upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "mcp__a__look", `{}`)), modeltest.Stream(modeltest.Text("Done.")))
	s := newSetup(m, greet(true))
	s.Servers = []tool.Server{a, b}
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	require.Equal(t, []string{"greet"}, e.Tools())
	held, err := s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	in := s.input
	in.Session, in.Partials, in.Init = held, false, &wire.Init{}
	run := start(e, in)
	var got []string
	for ev, err := range run.Events(t.Context()) {
		require.NoError(t, err)
		if p, ok := ev.Payload.(*wire.System); ok && p.Init != nil {
			require.Equal(t, []wire.MCPStatus{{Name: "a", Status: "pending"}, {Name: "b", Status: "pending"}}, p.MCPServers)
			require.Equal(t, []string{"greet"}, p.Tools)
		} else if ok {
			got = append(got, fmt.Sprintf("%s %s %s %s", p.Subtype, p.Name, p.Status, p.Error))
		} else {
			got = append(got, short(ev))
		}
	}
	require.NoError(t, held.Close())
	require.ElementsMatch(t, []string{"mcp_status a connected ", "mcp_status b failed no such program"}, got[:2])
	require.Equal(t, []string{"assistant tool_use 1 blocks", `tool_result t1 false "from mcp__a__look"`,
		"assistant end_turn 1 blocks"}, got[2:])
	for _, req := range up.Requests() {
		require.Contains(t, string(req.Body), "mcp__a__far")
	}

	// Once it is connected, the next run knows its tools from the beginning, and emits no event
	// about it.
	a.status.Store(tool.Connected)
	s.Servers = s.Servers[:1]
	in.Session, err = s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	for ev, err := range start(e, in).Events(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, []string{"greet"}, ev.Payload.(*wire.System).Tools, "b is still missing")
		break
	}
}

func TestConnectedServersAreKnownFromTheBeginning(t *testing.T) {
	list := &tool.List{Tools: []tool.Tool{remote("mcp__a__look")}}
	a := newShelf("a", tool.Connected, func(context.Context) (*tool.List, error) { return list, nil })
	m, _ := upstream(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Done."))))
	s := newSetup(m)
	s.Servers = []tool.Server{a}
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	for i, want := range [][]string{{}, {"mcp__a__look"}} {
		held, err := s.store.Open(t.Context(), "agent", "")
		require.NoError(t, err)
		in := s.input
		in.Session, in.Partials, in.Init = held, false, &wire.Init{}
		first := true
		for ev, err := range start(e, in).Events(t.Context()) {
			require.NoError(t, err)
			if first {
				require.Equal(t, want, ev.Payload.(*wire.System).Tools, "run %d", i)
			} else {
				require.NotEqual(t, "system", ev.EventName(), "the state is as in init")
			}
			first = false
		}
		require.NoError(t, held.Close())
	}
}

func TestInvalidToolsOfServers(t *testing.T) {
	a := newShelf("a", tool.Pending, func(context.Context) (*tool.List, error) {
		return &tool.List{Tools: []tool.Tool{remote("no name"), remote("greet"), remote("mcp__a__look")}}, nil
	})
	m, up := upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "greet", `{"name":"Ada"}`)),
		modeltest.Stream(modeltest.Text("Done.")))
	s := newSetup(m, greet(true))
	s.Servers = []tool.Server{a}
	got := s.run(t.Context(), t, "")
	require.NoError(t, got.err)
	require.Contains(t, got.lines, `tool_result t1 false "Hello, Ada"`, "a server does not take the place of a tool")
	require.NotContains(t, string(up.Requests()[0].Body), "no name")
	require.Contains(t, string(up.Requests()[0].Body), "mcp__a__look")
}

func TestToolsThatAServerLeavesOutAreWarnings(t *testing.T) {
	list := &tool.List{LeftOut: []string{"The tool \"late\" is left out."}, Tools: []tool.Tool{remote("mcp__a__look")}}
	m, _ := upstream(t, modeltest.Anthropic, modeltest.Repeat(modeltest.Stream(modeltest.Text("Done."))))
	s := newSetup(m)
	s.Servers = []tool.Server{newShelf("a", tool.Connected, func(context.Context) (*tool.List, error) { return list, nil })}
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	for range 2 { // the second run uses the tools of the first one
		held, err := s.store.Open(t.Context(), "agent", "")
		require.NoError(t, err)
		in := s.input
		in.Session = held
		var messages []string
		for ev, err := range start(e, in).Events(t.Context()) {
			require.NoError(t, err)
			if p, ok := ev.Payload.(*wire.System); ok && p.Subtype == runvalue.SystemWarning {
				messages = append(messages, p.Message)
			}
		}
		require.NoError(t, held.Close())
		require.Equal(t, list.LeftOut, messages)
	}
}

func TestInstructionsOfAServerAreInThePrompt(t *testing.T) {
	list := &tool.List{Instructions: "Look twice.", Tools: []tool.Tool{remote("mcp__a__look")}}
	m, up := upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Done.")))
	s := newSetup(m)
	s.Servers = []tool.Server{newShelf("a", tool.Connected, func(context.Context) (*tool.List, error) { return list, nil })}
	require.NoError(t, s.run(t.Context(), t, "").err)
	require.Contains(t, string(up.Requests()[0].Body), `Instructions of the MCP server a:\nLook twice.`)
}

func TestAServerThatDoesNotConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newShelf("a", tool.Pending, func(ctx context.Context) (*tool.List, error) { <-ctx.Done(); return nil, ctx.Err() })
		s := newSetup(demo.New(0))
		s.Servers, s.ConnectTimeout, s.input.Partials = []tool.Server{a}, 7*time.Second, false
		begin := time.Now()
		got := s.run(t.Context(), t, "")
		require.NoError(t, got.err)
		require.Equal(t, []string{"system mcp_status ", "assistant end_turn 1 blocks"}, got.lines)
		require.Equal(t, 7*time.Second, time.Since(begin))

		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		begin = time.Now()
		require.ErrorIs(t, s.run(ctx, t, "").err, cause, "a cancel ends the wait")
		require.Equal(t, time.Second, time.Since(begin))
	})
}

func TestPolicyHoldsForServers(t *testing.T) {
	a := newShelf("a", tool.Pending, func(context.Context) (*tool.List, error) {
		return &tool.List{Tools: []tool.Tool{remote("mcp__a__look"), remote("mcp__a__break")}}, nil
	})
	m, up := upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "mcp__a__look", `{}`), modeltest.ToolCall("t2", "mcp__a__break", `{}`)),
		modeltest.Stream(modeltest.Text("Done.")))
	s := newSetup(m)
	s.Servers = []tool.Server{a}
	s.Policy = policy(t, permission.ModeDefault, []string{"mcp__a"}, []string{"mcp__a__break"})
	got := s.run(t.Context(), t, "")
	require.NoError(t, got.err)
	require.Len(t, got.outcome.Denials, 1)
	require.NotContains(t, string(up.Requests()[0].Body), "mcp__a__break")
	require.Contains(t, string(up.Requests()[1].Body), "from mcp__a__look")
}

// cancelling is a tool whose schema is compiled when the run is cancelled.
type cancelling struct {
	tool.Tool
	cancel   context.CancelFunc
	compiled *atomic.Int64
}

func (c cancelling) Spec() tool.Spec {
	c.cancel()
	c.compiled.Add(1)
	return c.Tool.Spec()
}

// Compiling the schemas of a large list takes seconds. A cancelled run does not wait for it.
func TestCancelWhileSchemasAreCompiled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var compiled atomic.Int64
	list := &tool.List{Tools: make([]tool.Tool, 1000)}
	for i := range list.Tools {
		list.Tools[i] = cancelling{remote(fmt.Sprintf("mcp__a__t%d", i)), cancel, &compiled}
	}
	m, up := upstream(t, modeltest.Anthropic)
	s := newSetup(m, greet(true))
	s.Servers = []tool.Server{newShelf("a", tool.Connected, func(context.Context) (*tool.List, error) { return list, nil })}
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	held, err := s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	in := s.input
	in.Session = held
	_, err = e.Run(ctx, in, engine.OutputFunc(func(wire.Payload) {}))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, held.Close())
	require.EqualValues(t, 1, compiled.Load())
	require.Empty(t, up.Requests())
}

// slowFlush is an output whose first flush returns when a server was started, or after a timeout.
type slowFlush struct {
	engine.OutputFunc
	started <-chan struct{}
	once    sync.Once
	early   bool // a server was started before the end of the first flush
}

func (o *slowFlush) Flush() {
	o.once.Do(func() {
		select {
		case <-o.started:
			o.early = true
		case <-time.After(100 * time.Millisecond):
		}
	})
}

func TestFirstEventIsSentBeforeServersStart(t *testing.T) {
	started := make(chan struct{})
	m, _ := upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Done.")))
	s := newSetup(m)
	s.Servers = []tool.Server{newShelf("a", tool.Pending, func(context.Context) (*tool.List, error) {
		close(started)
		return nil, nil
	})}
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	held, err := s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	in := s.input
	in.Session = held
	out := &slowFlush{OutputFunc: func(wire.Payload) {}, started: started}
	_, err = e.Run(t.Context(), in, out)
	require.NoError(t, err)
	require.NoError(t, held.Close())
	require.False(t, out.early)
}
