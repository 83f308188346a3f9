package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model/modeltest"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// detail requests the details of an agent.
func (b *bench) detail(t *testing.T, id string) (d wire.AgentDetail) {
	t.Helper()
	res := b.do(t, "GET", "/v1/agents/"+id, "")
	require.Equal(t, http.StatusOK, res.status)
	require.NoError(t, json.Unmarshal([]byte(res.body), &d))
	return d
}

func skillFile(name, description string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n---\nThe body of " + name + ", " + description + ".\n"
}

func TestSkillsOfAnAgent(t *testing.T) {
	home, extra, cwd := t.TempDir(), t.TempDir(), t.TempDir()
	writeFile(t, home, ".agents/skills/letters/SKILL.md", skillFile("letters", "of the user"))
	writeFile(t, home, ".agents/skills/mail/SKILL.md", skillFile("mail", "of the user"))
	writeFile(t, extra, "team/mail/SKILL.md", skillFile("mail", "of the team"))
	writeFile(t, cwd, ".agents/skills/letters/SKILL.md", skillFile("letters", "of the project"))
	letters := wire.SkillSummary{Name: "letters", Description: "of the user", Source: "user",
		Location: filepath.Join(home, filepath.FromSlash(".agents/skills/letters/SKILL.md"))}
	project := wire.SkillSummary{Name: "letters", Description: "of the project", Source: "project",
		Location: filepath.Join(cwd, filepath.FromSlash(".agents/skills/letters/SKILL.md"))}
	mail := wire.SkillSummary{Name: "mail", Description: "of the user", Source: "user",
		Location: filepath.Join(home, filepath.FromSlash(".agents/skills/mail/SKILL.md"))}
	team := wire.SkillSummary{Name: "mail", Description: "of the team", Source: "user",
		Location: filepath.Join(extra, filepath.FromSlash("team/mail/SKILL.md"))}
	for name, row := range map[string]struct {
		sources, extra []string
		want           []wire.SkillSummary
	}{
		"sources left out":             {nil, nil, []wire.SkillSummary{project, mail}},
		"extra after the home":         {nil, []string{extra}, []wire.SkillSummary{project, team}},
		"only the user's":              {[]string{"user"}, []string{extra}, []wire.SkillSummary{letters, team}},
		"only the project's":           {[]string{"project"}, []string{extra}, []wire.SkillSummary{project}},
		"the project takes precedence": {[]string{"project", "user"}, nil, []wire.SkillSummary{project, mail}},
		"local has no effect":          {[]string{"local"}, []string{extra}, nil},
		"no source, and no field":      {[]string{}, []string{extra}, nil},
		"of an unavailable agent":      {nil, nil, []wire.SkillSummary{project, mail}},
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t, nil, func(c *runtime.Config) {
				c.HomeDir, c.CWD = home, cwd
				c.Agents[0].SettingSources, c.Agents[0].ExtraUserSkillDirs = row.sources, row.extra
				if name == "of an unavailable agent" {
					c.Agents[0].SystemPromptFile = "missing.md"
				}
			})
			require.Equal(t, row.want, b.detail(t, "helper").AvailableSkills)
			if row.want == nil {
				require.NotContains(t, b.do(t, "GET", "/v1/agents/helper", "").body, "availableSkills")
			}
		})
	}
}

func TestSkillsAreScannedOnlyAtTheStart(t *testing.T) {
	home := t.TempDir()
	in := func(c *runtime.Config) { c.HomeDir = home }
	b := serve(t, nil, in)
	writeFile(t, home, ".agents/skills/late/SKILL.md", skillFile("late", "too late"))
	require.Empty(t, b.detail(t, "helper").AvailableSkills)
	require.Len(t, serve(t, nil, in).detail(t, "helper").AvailableSkills, 1, "after a restart")
}

func TestSkillsReachTheModel(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "Skill", `{"skill":"letters"}`)),
		modeltest.Stream(modeltest.Text("Dear Ada")))
	b := serve(t, up, func(c *runtime.Config) {
		writeFile(t, c.CWD, ".agents/skills/letters/SKILL.md", skillFile("letters", "How to write letters"))
	})
	s := b.open(t.Context(), t, hello)
	require.Equal(t, []any{"letters"}, s.next().data["skills"])
	result := s.until("tool_result").data["result"].(map[string]any)
	require.Contains(t, result["output"], "The body of letters")
	require.Contains(t, result["output"], filepath.Join(".agents", "skills", "letters"), "its directory")
	s.until("done")
	require.Contains(t, string(up.Requests()[0].Body), `- letters: How to write letters`, "name and description stand in the prompt")
}

func TestAgentsThatCannotBeResolved(t *testing.T) {
	failing := func(_ context.Context, def agent.CustomTool) (tool.Tool, error) {
		return nil, errors.New("its hash is another")
	}
	for name, row := range map[string]struct {
		change func(*agent.Agent)
		load   func(context.Context, agent.CustomTool) (tool.Tool, error)
		why    string
	}{
		"no file of its prompt": {func(a *agent.Agent) { a.SystemPromptFile = "missing.md" }, nil, "missing.md"},
		"an unknown protocol":   {func(a *agent.Agent) { a.Provider.Protocol = "telepathy" }, nil, "telepathy"},
		"no key at the vendor":  {func(a *agent.Agent) { a.Provider.Protocol = "anthropic" }, nil, "API key"},
		"a tool that fails": {func(a *agent.Agent) { a.CustomTools = []agent.CustomTool{{Path: "a.ts"}} }, failing,
			"its hash is another"},
		"no loader for its tools": {func(a *agent.Agent) { a.CustomTools = []agent.CustomTool{{Path: "a.ts"}} }, nil,
			"the runtime is configured without LoadTool"},
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t, nil, func(c *runtime.Config) {
				lost := helper(nil)
				lost.ID, lost.MaxTurns, lost.Datasets = "lost", 7, map[string]string{"handbook": "The handbook"}
				row.change(&lost)
				c.Agents, c.LoadTool = append(c.Agents, lost), row.load
			})
			d := b.detail(t, "lost")
			require.Equal(t, "unavailable", d.Status)
			require.Equal(t, 7, d.MaxTurns)
			require.Equal(t, map[string]string{"handbook": "The handbook"}, d.Datasets, "the detail is complete")
			require.ErrorContains(t, b.Unavailable()["lost"], row.why)
			require.Contains(t, b.log.String(), row.why)
			require.Contains(t, b.do(t, "GET", "/health", "").body, `"status":"degraded","agents":2`)
			require.Contains(t, b.do(t, "GET", "/v1/agents", "").body, `"status":"unavailable"`)
			require.Equal(t, http.StatusServiceUnavailable, b.do(t, "POST", "/v1/agents/lost/runs", hello).status)
			require.Equal(t, http.StatusOK, b.do(t, "POST", runs, hello, asJSON...).status, "the others run")
		})
	}
}

func TestCustomToolsAreLoadedInParallel(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	up := modeltest.Start(t, modeltest.Anthropic, modeltest.Stream(modeltest.ToolCall("t1", "count", `{}`)),
		modeltest.Stream(modeltest.Text("Seven.")))
	b := serve(t, up, func(c *runtime.Config) {
		c.Agents[0].CustomTools = []agent.CustomTool{{Path: "count"}}
		c.Agents[0].AllowedTools = []string{"count"}
		second := helper(nil)
		second.ID, second.CustomTools = "second", []agent.CustomTool{{Path: "other"}}
		c.Agents = append(c.Agents, second)
		c.LoadTool = func(ctx context.Context, def agent.CustomTool) (tool.Tool, error) {
			deadline, ok := ctx.Deadline()
			if !ok || time.Until(deadline) > 10*time.Second {
				return nil, errors.New("there is no bound")
			}
			both.Done()
			both.Wait()
			return tool.New(tool.Spec{Name: def.Path},
				func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Output: "7"}, nil }), nil
		}
	})
	require.Empty(t, b.Unavailable())
	s := b.open(t.Context(), t, hello)
	require.Contains(t, s.next().data["tools"], "count")
	require.Equal(t, "7", s.until("tool_result").data["result"].(map[string]any)["output"])
	s.until("done")
}

func TestSubagentsHaveAtMostThePermissionsOfTheirAgent(t *testing.T) {
	up := modeltest.Start(t, modeltest.Anthropic,
		modeltest.Stream(modeltest.ToolCall("t1", "Task", `{"description":"Look","prompt":"Look at it.","subagent_type":"reviewer"}`)),
		modeltest.Stream(modeltest.ToolCall("s1", "Bash", `{"command":"echo"}`)),
		modeltest.Stream(modeltest.Text("Looked.")), modeltest.Stream(modeltest.Text("Done.")))
	b := serve(t, up, func(c *runtime.Config) {
		c.Agents[0].SystemPrompt = "The prompt of the agent."
		c.Agents[0].AllowedTools = []string{"Task", "Read", "Grep", "Bash"}
		c.Agents[0].DisallowedTools = []string{"Bash"}
		c.Agents[0].Subagents = map[string]agent.Subagent{"reviewer": {
			Description: "Reviews", Prompt: "The prompt of the reviewer.", Model: "small",
			Tools: []string{"Read", "Bash", "Write", "Task"},
		}}
	})
	_, run := b.blocking(t, `{"message":"The message of the user."}`)
	require.Equal(t, "Done.", run.Text)
	require.Equal(t, 2, run.NumTurns, "of the main loop")
	require.NotContains(t, b.do(t, "GET", "/v1/agents/helper", "").body, "reviewer.", "only the description of a subagent is returned")
	var asked struct {
		Model    string
		Messages json.RawMessage
		System   json.RawMessage
		Tools    []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal(up.Requests()[1].Body, &asked))
	require.Equal(t, "small", asked.Model)
	require.Contains(t, string(asked.System), "The prompt of the reviewer.")
	require.NotContains(t, string(asked.System), "The prompt of the agent.")
	require.Contains(t, string(asked.Messages), "Look at it.")
	require.NotContains(t, string(asked.Messages), "The message of the user.", "its context is fresh")
	require.Len(t, asked.Tools, 1)
	require.Equal(t, "Read", asked.Tools[0].Name, "what it lists and its agent has, and never Task")
	require.Contains(t, string(up.Requests()[2].Body), `"is_error":true`, "the call of Bash was denied")
	require.Contains(t, string(up.Requests()[3].Body), "Looked.")
	require.NotContains(t, string(up.Requests()[3].Body), "s1", "only its last text comes back")
}
