package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/internal/permission"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Resources of several servers are read through two tools, as far as the policy permits it.
func TestResourcesOfServers(t *testing.T) {
	library := func(name string) *shelf {
		read := func(_ context.Context, call tool.Call, uri string) (tool.Result, error) {
			if uri == "bad:" {
				return tool.Result{}, errors.New("it is bad")
			}
			return tool.Result{Output: fmt.Sprintf("%s %q %s", name, uri, call.RunID)}, nil
		}
		return newShelf(name, tool.Connected, func(context.Context) (*tool.List, error) { return &tool.List{Resources: read}, nil })
	}
	without := newShelf("c", tool.Connected, func(context.Context) (*tool.List, error) { return &tool.List{}, nil })
	for name, row := range map[string]struct {
		policy  permission.Config
		tool    string
		input   string
		want    string
		offered []string
	}{
		"list of all":        {permission.Config{}, "ListMcpResources", `{}`, `false "a \"\" run\nb \"\" run"`, []string{"ListMcpResources", "ReadMcpResource"}},
		"list of one":        {permission.Config{}, "ListMcpResources", `{"server":"b"}`, `false "b \"\" run"`, []string{"ListMcpResources", "ReadMcpResource"}},
		"list of another":    {permission.Config{}, "ListMcpResources", `{"server":"c"}`, `true "there is no server \"c\" with resources: the servers are a, b"`, []string{"ListMcpResources", "ReadMcpResource"}},
		"read needs a rule":  {permission.Config{}, "ReadMcpResource", `{"server":"a","uri":"x:"}`, `true "Permission to use ReadMcpResource was denied`, []string{"ListMcpResources", "ReadMcpResource"}},
		"read with a rule":   {permission.Config{Allowed: []string{"ReadMcpResource"}}, "ReadMcpResource", `{"server":"a","uri":"x:"}`, `false "a \"x:\" run"`, []string{"ReadMcpResource"}},
		"read of nothing":    {permission.Config{Mode: permission.ModeBypass}, "ReadMcpResource", `{"server":"a","uri":""}`, `true "uri is missing"`, []string{"ListMcpResources", "ReadMcpResource"}},
		"read with a null":   {permission.Config{Mode: permission.ModeBypass}, "ReadMcpResource", `{"server":"a","uri":null}`, `true "The input does not match the schema of ReadMcpResource: validating /properties/uri: type: null has type \"null\", want \"string\": send uri as a string, not as null."`, []string{"ListMcpResources", "ReadMcpResource"}},
		"an error":           {permission.Config{Mode: permission.ModeBypass}, "ReadMcpResource", `{"server":"a","uri":"bad:"}`, `true "it is bad"`, []string{"ListMcpResources", "ReadMcpResource"}},
		"a denied server":    {permission.Config{Mode: permission.ModeBypass, Disallowed: []string{"mcp__a"}}, "ReadMcpResource", `{"server":"a","uri":"x:"}`, `true "there is no server \"a\" with resources: the servers are b"`, []string{"ListMcpResources", "ReadMcpResource"}},
		"all servers denied": {permission.Config{Mode: permission.ModeBypass, Disallowed: []string{"mcp__a__*", "mcp__b"}}, "ReadMcpResource", `{}`, `true "There is no tool \"ReadMcpResource\". There are no tools."`, nil},
		"plan":               {permission.Config{Mode: permission.ModePlan}, "ListMcpResources", `{"server":"a"}`, `false "a \"\" run"`, []string{"ListMcpResources"}},
	} {
		t.Run(name, func(t *testing.T) {
			var offered []string
			var turn int
			m := inProcess(func(_ context.Context, req *model.Request, yield func(model.Part, error) bool) {
				offered = nil
				for _, v := range req.Tools {
					offered = append(offered, v.Name)
				}
				parts := says("Done.")
				if turn++; turn == 1 {
					parts = calls(row.tool)
					parts = slices.Insert(parts, 1, model.Part{Kind: model.KindToolInput, Text: row.input})
				}
				for _, p := range parts {
					if !yield(p, nil) {
						return
					}
				}
			})
			s := newSetup(m)
			s.Servers = []tool.Server{library("a"), library("b"), without}
			var err error
			s.Policy, err = permission.New(row.policy)
			require.NoError(t, err)
			got := s.run(t.Context(), t, "")
			require.NoError(t, got.err)
			require.Equal(t, row.offered, offered)
			lines := results(got.lines)
			require.Contains(t, lines[len(lines)-1], row.want)
		})
	}
}

// A server that does not respond, or fails, leaves the lists of the others.
func TestResourcesOfAServerThatHangs(t *testing.T) {
	serve := func(name string, read func(context.Context, tool.Call, string) (tool.Result, error)) *shelf {
		return newShelf(name, tool.Connected, func(context.Context) (*tool.List, error) { return &tool.List{Resources: read}, nil })
	}
	works := func(context.Context, tool.Call, string) (tool.Result, error) {
		return tool.Result{Output: "a book"}, nil
	}
	for name, row := range map[string]struct {
		read func(context.Context, tool.Call, string) (tool.Result, error)
		want string
	}{
		"no response": {func(ctx context.Context, _ tool.Call, _ string) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, context.Cause(ctx)
		}, `true "a book\nThe call exceeded its time limit of 2m0s and was stopped."`},
		"an error": {func(context.Context, tool.Call, string) (tool.Result, error) {
			return tool.Result{}, errors.New("it is bad")
		}, `true "a book\nit is bad"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSetup(turns(calls("ListMcpResources"), says("Done.")))
				s.Servers = []tool.Server{serve("a", works), serve("b", row.read)}
				got := s.run(t.Context(), t, "")
				require.NoError(t, got.err)
				require.Contains(t, results(got.lines)[0], row.want)
			})
		})
	}
}

// Progress starts the time of a call again, within that of the run.
func TestProgressExtendsTheTimeOfACall(t *testing.T) {
	for name, row := range map[string]struct {
		steps int
		want  string
		took  time.Duration
	}{
		"progress each minute": {5, `false "done"`, 6 * time.Minute},
		"no more progress":     {-5, `true "The call exceeded its time limit of 2m0s and was stopped."`, 7 * time.Minute},
		"progress without end": {1000, "", 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := tool.New(tool.Spec{Name: "mcp__a__slow", ReadOnly: true}, func(ctx context.Context, call tool.Call) (tool.Result, error) {
					for range max(row.steps, -row.steps) {
						select {
						case <-time.After(time.Minute):
							call.Progress()
						case <-ctx.Done():
							return tool.Result{}, context.Cause(ctx)
						}
					}
					wait := time.Minute
					if row.steps < 0 {
						wait = time.Hour
					}
					select {
					case <-time.After(wait):
						return tool.Result{Output: "done"}, nil
					case <-ctx.Done():
						return tool.Result{}, context.Cause(ctx)
					}
				})
				s := newSetup(turns(calls("mcp__a__slow"), says("Done.")), slow)
				begin := time.Now()
				got := s.run(t.Context(), t, "")
				require.Equal(t, row.took, time.Since(begin))
				if row.want == "" {
					require.ErrorIs(t, got.err, engine.ErrRunTimeout)
					return
				}
				require.NoError(t, got.err)
				require.Contains(t, results(got.lines)[0], row.want)
			})
		})
	}
}
