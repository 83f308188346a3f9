package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/logtest"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// withSchema is a tool with an input schema.
func withSchema(name, schema string) tool.Tool {
	return tool.New(tool.Spec{Name: name, InputSchema: json.RawMessage(schema), ReadOnly: true},
		func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Output: "called"}, nil })
}

// list joins n texts of JSON.
func list(n int, text string) string { return strings.TrimSuffix(strings.Repeat(text+",", n), ",") }

// Schemas that overflow the stack of a validator, or occupy it forever.
var dangerous = map[string]string{
	"circle":    `{"type":"object","allOf":[{"$ref":"#"}]}`,
	"dynamic":   `{"type":"object","$dynamicAnchor":"a","allOf":[{"$dynamicRef":"#a"}]}`,
	"doubling":  doubling(40),
	"patterns":  `{"type":"object","patternProperties":{` + patterns(3000) + `}}`,
	"no object": `{"type":"array","items":{}}`, // no model can be called with it
}

func doubling(n int) string {
	var defs strings.Builder
	for i := range n {
		fmt.Fprintf(&defs, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	return fmt.Sprintf(`{"type":"object","$ref":"#/$defs/d0","$defs":{%s"d%d":{}}}`, defs.String(), n)
}

func patterns(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"^(a|b|ab)*x{%d}$":{"type":"string"}`, i%900))
	}
	return strings.Join(all, ",")
}

// A tool with a dangerous schema is left out with a warning, whether it is a tool of the agent or
// of a server. The others work.
func TestRejectedSchemas(t *testing.T) {
	for name, schema := range dangerous {
		for _, source := range []string{"agent", "server"} {
			t.Run(name+" of the "+source, func(t *testing.T) {
				m, up := upstream(t, modeltest.Anthropic,
					modeltest.Stream(modeltest.ToolCall("t1", "bad", `{"aaaaaaaaaaaaaaaaaaaa":"x"}`), modeltest.ToolCall("t2", "good", `{}`)),
					modeltest.Stream(modeltest.Text("Done.")))
				tools := []tool.Tool{withSchema("bad", schema), withSchema("good", `{"type":"object"}`)}
				s := newSetup(m)
				if source == "agent" {
					s.Tools = tools
				} else {
					s.Servers = []tool.Server{newShelf("a", tool.Connected, func(context.Context) (*tool.List, error) { return &tool.List{Tools: tools}, nil })}
				}
				var logged logtest.Buffer
				s.Logger = slog.New(slog.NewTextHandler(&logged, nil))
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				got := s.run(ctx, t, "")
				require.NoError(t, got.err)
				lines := results(got.lines)
				require.Len(t, lines, 3)
				require.Equal(t, "system warning ", lines[0])
				require.Contains(t, strings.Join(lines, "\n"), `There is no tool \"bad\". The tools are: good.`)
				require.Contains(t, lines, `tool_result t2 false "called"`)
				require.NotContains(t, string(up.Requests()[0].Body), `"bad"`)
				require.Contains(t, logged.String(), `msg="tool is left out because of its input schema" tool=bad`)
			})
		}
	}
}

// A tool whose schema a model's API would reject is offered with another schema, and called with
// the input that it expects, which is validated. Events have that input too.
func TestSchemasForTheAPI(t *testing.T) {
	const schema = `{"type":"object","properties":{"$filter":{"type":"string"},"ids":{"type":"array"}},"required":["$filter"],"anyOf":[{"required":["$filter"]},{"required":["ids"]}]}`
	for _, protocol := range []modeltest.Protocol{modeltest.Anthropic, modeltest.OpenAI} {
		for _, source := range []string{"agent", "server"} {
			t.Run(string(protocol)+" of the "+source, func(t *testing.T) {
				m, _ := upstream(t, protocol,
					modeltest.Stream(modeltest.ToolCall("t1", "List", `{"_filter":`, `"a < 1","ids":[1]}`), modeltest.ToolCall("t2", "List", `{"_filter":[1]}`)),
					modeltest.Stream(modeltest.Text("Done.")))
				tools := []tool.Tool{tool.New(tool.Spec{Name: "List", InputSchema: json.RawMessage(schema), ReadOnly: true},
					func(_ context.Context, c tool.Call) (tool.Result, error) {
						return tool.Result{Output: string(c.Input)}, nil
					})}
				s := newSetup(m)
				if source == "agent" {
					s.Tools = tools
				} else {
					s.Servers = []tool.Server{newShelf("a", tool.Connected, func(context.Context) (*tool.List, error) { return &tool.List{Tools: tools}, nil })}
				}
				got := s.run(t.Context(), t, "")
				require.NoError(t, got.err)
				lines := results(got.lines)
				require.Len(t, lines, 2)
				require.Contains(t, lines, `tool_result t1 false "{\"$filter\":\"a < 1\",\"ids\":[1]}"`)
				require.Contains(t, strings.Join(lines, "\n"), `tool_result t2 true "The input does not match`)
				require.Contains(t, strings.Join(got.lines, "\n"), `$filter`)
			})
		}
	}
}

// Of more tools than the API accepts, those of the agent come first, then those of the servers in
// their order. The others are left out with one warning.
func TestMoreToolsThanTheAPIAccepts(t *testing.T) {
	many := func(prefix string, n int) []tool.Tool {
		var tools []tool.Tool
		for i := range n {
			tools = append(tools, withSchema(fmt.Sprintf("%s%03d", prefix, i), `{}`))
		}
		return tools
	}
	server := func(name string, tools []tool.Tool) tool.Server {
		slices.Reverse(tools) // the order of the list has no effect
		return newShelf(name, tool.Connected, func(context.Context) (*tool.List, error) { return &tool.List{Tools: tools}, nil })
	}
	for name, row := range map[string]struct {
		model        string
		own, a, b    int
		last, absent string // of the tools of the request
		warning      string // "": none
	}{
		"the limit":     {"gpt-5", 28, 100, 0, "a099", "a100", ""},
		"servers":       {"openai/gpt-4o", 100, 27, 5, "b000", "b001", "accepts 128 tools: b001, b002, b003, b004 are left out"},
		"own tools":     {"o3", 130, 1, 0, "z127", "a000", "accepts 128 tools: z128, z129 are left out"},
		"many":          {"gpt-4.1", 0, 200, 0, "a127", "a128", "a137 and 62 more are left out"},
		"another model": {"qwen3", 0, 128, 0, "a127", "a128", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, up := upstream(t, modeltest.OpenAI, modeltest.Stream(modeltest.ToolCall("t1", row.absent, `{}`)), modeltest.Stream(modeltest.Text("Done.")))
			s := newSetup(m, many("z", row.own)...)
			s.Request.Model = row.model
			s.Servers = []tool.Server{server("a", many("a", row.a)), server("b", many("b", row.b))}
			var logged logtest.Buffer
			s.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			got := s.run(t.Context(), t, "")
			require.NoError(t, got.err)
			body := string(up.Requests()[0].Body)
			require.Contains(t, body, `"name":"`+row.last+`"`)
			require.NotContains(t, body, `"name":"`+row.absent+`"`)
			require.Contains(t, strings.Join(got.lines, "\n"), `There is no tool \"`+row.absent+`\"`)
			require.Equal(t, row.warning != "", slices.Contains(got.lines, "system warning "))
			require.Contains(t, logged.String(), row.warning)
		})
	}
}

func TestWarningsOfRejectedSchemasAreBounded(t *testing.T) {
	m, _ := upstream(t, modeltest.Anthropic, modeltest.Stream(modeltest.Text("Done.")))
	s := newSetup(m)
	for i := range 25 {
		s.Tools = append(s.Tools, withSchema(fmt.Sprint("bad", i), dangerous["circle"]))
	}
	e, err := engine.New(s.Config)
	require.NoError(t, err)
	require.Empty(t, e.Tools())
	held, err := s.store.Open(t.Context(), "agent", "")
	require.NoError(t, err)
	in := s.input
	in.Session = held
	var messages []string
	for ev, err := range start(e, in).Events(t.Context()) {
		require.NoError(t, err)
		if p, ok := ev.Payload.(*wire.System); ok {
			messages = append(messages, p.Message)
		}
	}
	require.NoError(t, held.Close())
	require.Len(t, messages, 11)
	require.Equal(t, `The tool "bad0" is left out because of its input schema: the schema refers to itself for the same value: "#".`, messages[0])
	require.Equal(t, "15 more tools are left out.", messages[10])
}

// Validation takes part in the time of its call, and a cancelled run does not wait for it.
func TestSlowValidation(t *testing.T) {
	slow := `{"type":"object","properties":{"a":{"items":{"allOf":[` + list(400, `{"type":"integer"}`) + `]}}}}`
	input := `{"a":[` + list(1500, "1") + `]}`
	for name, row := range map[string]struct {
		cancelled bool
		want      string
	}{
		"time limit": {false, `tool_result t1 true "The call exceeded its time limit of 30ms and was stopped."`},
		"cancel":     {true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := upstream(t, modeltest.Anthropic,
				modeltest.Stream(modeltest.ToolCall("t1", "slow", input)), modeltest.Stream(modeltest.Text("Done.")))
			s := newSetup(m, withSchema("slow", slow))
			ctx, cancel := context.WithCancelCause(t.Context())
			enough := errors.New("enough")
			s.ToolTimeout = 30 * time.Millisecond
			if row.cancelled {
				s.ToolTimeout = time.Minute
				s.Tools = []tool.Tool{slowOnCancel{withSchema("slow", slow), func() { time.AfterFunc(10*time.Millisecond, func() { cancel(enough) }) }}}
			}
			began := time.Now()
			got := s.run(ctx, t, "")
			cancel(nil)
			require.Less(t, time.Since(began), 30*time.Second)
			if row.cancelled {
				require.ErrorIs(t, got.err, enough)
				return
			}
			require.NoError(t, got.err)
			require.Contains(t, got.lines, row.want)
		})
	}
}

// slowOnCancel is a tool that reports the beginning of a call.
type slowOnCancel struct {
	tool.Tool
	begin func()
}

func (s slowOnCancel) Timeout(json.RawMessage, time.Duration) time.Duration {
	s.begin()
	return time.Minute
}

// panicking is a tool that panics before it is called.
type panicking struct{ tool.Tool }

func (panicking) Timeout(json.RawMessage, time.Duration) time.Duration { panic("no timeout") }

func TestPanicBeforeACall(t *testing.T) {
	m, _ := upstream(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "greet", `{"name":"Bob"}`)), modeltest.Stream(modeltest.Text("Done.")))
	got := newSetup(m, panicking{greet(true)}).run(t.Context(), t, "")
	require.NoError(t, got.err)
	require.Contains(t, got.lines, `tool_result t1 true "The call could not be checked because of an internal error."`)
}
