package agent_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// A valid value is equal after encoding and parsing, including the difference between nil and
// empty, and text that looks like a variable.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := files().Draw(t, "file")
		require.NoError(t, f.Validate())

		asJSON, err := json.Marshal(f)
		require.NoError(t, err)
		got, err := agent.Parse("f.json", asJSON, nil)
		require.NoError(t, err)
		require.Equal(t, f, got, "by JSON")

		var plain agent.File
		require.NoError(t, json.Unmarshal(asJSON, &plain))
		require.Equal(t, *f, plain, "by encoding/json alone")

		asYAML, err := yaml.Marshal(f)
		require.NoError(t, err)
		got, err = agent.Parse("f.yaml", asYAML, nil)
		require.NoError(t, err, "%s", asYAML)
		require.Equal(t, f, got, "by YAML: %s", asYAML)
	})
}

// texts contains text that a file could interpret as another value.
func texts() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"", " ", "\n", "\n a", "a\n", "a\n\n", " a\nb", "\ta", "a: b", "- a", "# a", "a #b", "no", "null", "~", "1", "0x1",
		"1e3", ".inf", "2024-01-01", "<<", "=",
		"${X}", "$${X}", "$$${X}", "${", "$", "{a", "[a", "*a", "&a", "!a", "%a", "@a", "`a", "'", "\"", "\\", "\u0085",
		"\u2028", "\ufeff", "\x00", "\x7f", "a\r\nb", "# 你\n\n  - 写: 代码 \n好\n", "a\n  b\n", "a \n\n b", "\U0001F600", "---", "...",
	}))
}

func some(of *rapid.Generator[string]) *rapid.Generator[string] {
	return of.Filter(func(s string) bool { return s != "" })
}

// or gives the zero value in half of the cases.
func or[T any](of *rapid.Generator[T]) *rapid.Generator[T] {
	var zero T
	return rapid.OneOf(rapid.Just(zero), of)
}

func lists[T any](of *rapid.Generator[T]) *rapid.Generator[[]T] {
	return or(rapid.SliceOfN(of, 0, 3))
}

func maps[T any](names *rapid.Generator[string], of *rapid.Generator[T]) *rapid.Generator[map[string]T] {
	return or(rapid.MapOfN(names, of, 0, 3))
}

func secrets(of *rapid.Generator[string]) *rapid.Generator[agent.Secret] {
	return rapid.Map(of, func(s string) agent.Secret { return agent.Secret(s) })
}

func files() *rapid.Generator[*agent.File] {
	return rapid.Custom(func(t *rapid.T) *agent.File {
		count := rapid.IntRange(0, math.MaxInt)
		span := rapid.Map(rapid.Int64Range(0, 1<<60), func(n int64) time.Duration { return time.Duration(n) })
		f := &agent.File{
			Auth: agent.Auth{APIKeys: or(rapid.SliceOfN(secrets(rapid.StringMatching(`[!-+\--~]{1,9}`)), 1, 3)).Draw(t, "keys")},
			CWD:  texts().Draw(t, "cwd"), AgentHome: texts().Draw(t, "agent home"), StateDir: texts().Draw(t, "state dir"),
			Bus: secrets(texts()).Draw(t, "bus"),
			Limits: agent.Limits{
				MaxConcurrentRuns: count.Draw(t, "runs"), RunTimeout: span.Draw(t, "run"), LLMIdleTimeout: span.Draw(t, "idle"),
				ToolTimeout:        span.Draw(t, "tool"),
				MaxToolOutputBytes: count.Draw(t, "output"), MCPConnectTimeout: span.Draw(t, "mcp"), MCPStartTimeout: span.Draw(t, "mcp start"),
				MaxMessageBytes: int64(count.Draw(t, "message")), MaxResponseBytes: rapid.IntRange(0, 64<<20).Draw(t, "response"),
				MaxMemoryBytes: int64(count.Draw(t, "memory")), SessionTTL: span.Draw(t, "ttl"),
			},
			Sandbox: agent.SandboxSettings{Limits: agent.SandboxLimits{
				MaxMemoryBytes: int64(count.Draw(t, "sandbox memory")), MaxProcesses: int64(count.Draw(t, "processes")),
				MaxAddressSpaceBytes: int64(count.Draw(t, "address space")), MaxOpenFiles: int64(count.Draw(t, "open files")),
				MaxFileBytes: int64(count.Draw(t, "file")),
			}},
			Agents: rapid.SliceOfN(agents(), 0, 2).Draw(t, "agents"),
		}
		for i := range f.Agents {
			f.Agents[i].ID = fmt.Sprintf("a-%d", i)
		}
		return f
	})
}

func agents() *rapid.Generator[agent.Agent] {
	return rapid.Custom(func(t *rapid.T) agent.Agent {
		a := agent.Agent{
			Name: texts().Draw(t, "name"), Description: texts().Draw(t, "description"), Model: some(texts()).Draw(t, "model"),
			Provider: agent.Provider{
				Protocol: some(texts()).Draw(t, "protocol"), BaseURL: secrets(texts()).Draw(t, "base url"),
				APIKey: secrets(texts()).Draw(t, "key"), AuthStyle: texts().Draw(t, "auth style"),
				APIKeyHeader: texts().Draw(t, "key header"),
				Headers:      maps(texts(), secrets(texts())).Draw(t, "headers"),
				Body:         maps(texts(), anything(2)).Draw(t, "body"),
				StreamUsage:  or(rapid.Ptr(rapid.Bool(), false)).Draw(t, "stream usage"),
			},
			MaxOutputTokens: rapid.IntRange(0, 9).Draw(t, "tokens"),
			Temperature:     or(rapid.Ptr(rapid.Float64Range(0, 2), false)).Draw(t, "temperature"),
			Thinking: or(rapid.SampledFrom([]agent.Thinking{
				{BudgetTokens: 9}, {Type: agentvalue.ThinkingAdaptive}, {Type: agentvalue.ThinkingAdaptive, Effort: "low"},
			})).Draw(t, "thinking"),
			MaxTurns:       rapid.IntRange(0, 9).Draw(t, "turns"),
			PermissionMode: rapid.SampledFrom([]string{"", "default", "plan", "auto"}).Draw(t, "mode"),
			AllowedTools:   lists(texts()).Draw(t, "allowed"), DisallowedTools: lists(texts()).Draw(t, "disallowed"),
			SettingSources:     lists(rapid.SampledFrom([]string{"user", "project", "local"})).Draw(t, "sources"),
			ExtraUserSkillDirs: lists(texts()).Draw(t, "dirs"),
			MCPServers:         maps(rapid.StringMatching(`[a-z]-?(_[A-Z0-9])?`), servers()).Draw(t, "servers"),
			Subagents:          maps(some(texts()), subagents()).Draw(t, "subagents"),
			Datasets:           maps(texts(), texts()).Draw(t, "datasets"),
			CustomTools:        lists(customTools()).Draw(t, "tools"),
			Sandbox:            sandboxes(true).Draw(t, "sandbox"),
			Limits: agent.AgentLimits{
				RunTimeout: time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "run")), MaxToolOutputBytes: rapid.IntRange(0, 9).Draw(t, "output"),
				MCPStartTimeout: time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "start")),
			},
		}
		if rapid.Bool().Draw(t, "prompt in a file") {
			a.SystemPromptFile = texts().Draw(t, "prompt file")
		} else {
			a.SystemPrompt = texts().Draw(t, "prompt")
		}
		return a
	})
}

// anything returns a JSON value of at most that depth.
func anything(depth int) *rapid.Generator[any] {
	of := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), texts().AsAny(),
		rapid.SampledFrom([]float64{0, -1, 1.5, 1e21, 1e-7, 9007199254740991}).AsAny(),
	}
	if depth > 0 {
		of = append(of, rapid.SliceOfN(anything(depth-1), 0, 2).AsAny(), rapid.MapOfN(texts(), anything(depth-1), 0, 2).AsAny())
	}
	return rapid.OneOf(of...)
}

func servers() *rapid.Generator[agent.MCPServer] {
	values := maps(texts(), secrets(texts()))
	return rapid.Custom(func(t *rapid.T) agent.MCPServer {
		if rapid.Bool().Draw(t, "stdio") {
			return agent.MCPServer{Transport: "stdio", Command: some(texts()).Draw(t, "command"),
				Args: lists(texts()).Draw(t, "args"), Env: values.Draw(t, "env"), Sandbox: sandboxes(false).Draw(t, "sandbox"),
				Timeout: time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "timeout")), Instructions: rapid.Bool().Draw(t, "instructions")}
		}
		return agent.MCPServer{Transport: rapid.SampledFrom([]string{"sse", "http"}).Draw(t, "transport"),
			URL: some(texts()).Draw(t, "url"), Headers: values.Draw(t, "headers"), Timeout: time.Minute}
	})
}

func sandboxes(mode bool) *rapid.Generator[agent.Sandbox] {
	return rapid.Custom(func(t *rapid.T) agent.Sandbox {
		paths := lists(texts().Filter(func(s string) bool { return s != "" && !strings.Contains(s, "\x00") }))
		s := agent.Sandbox{Read: paths.Draw(t, "read"), Write: paths.Draw(t, "write")}
		if mode {
			s.Mode = rapid.SampledFrom([]string{"", "auto", "required", "off"}).Draw(t, "mode")
		}
		s.Network = rapid.SampledFrom([]string{"", "proxy", "none", "all"}).Draw(t, "network")
		if s.Network == "" || s.Network == "proxy" {
			s.Domains = lists(rapid.SampledFrom([]string{"example.com", "*.example.com", "a.example:1"})).Draw(t, "domains")
		}
		return s
	})
}

func subagents() *rapid.Generator[agent.Subagent] {
	return rapid.Custom(func(t *rapid.T) agent.Subagent {
		return agent.Subagent{
			Description: some(texts()).Draw(t, "description"), Prompt: some(texts()).Draw(t, "prompt"), Model: texts().Draw(t, "model"),
			Tools: lists(texts()).Draw(t, "tools"), DisallowedTools: lists(texts()).Draw(t, "disallowed"),
			MCPServers: lists(texts()).Draw(t, "servers"),
			Skills:     lists(texts()).Draw(t, "skills"), MaxTurns: rapid.IntRange(0, 9).Draw(t, "turns"),
		}
	})
}

func customTools() *rapid.Generator[agent.CustomTool] {
	return rapid.Custom(func(t *rapid.T) agent.CustomTool {
		if rapid.Bool().Draw(t, "path") {
			return agent.CustomTool{Name: texts().Draw(t, "name"), Path: some(texts()).Draw(t, "path")}
		}
		return agent.CustomTool{Name: some(texts()).Draw(t, "name"), URL: some(texts()).Draw(t, "url"),
			Hash: some(texts()).Draw(t, "hash"), FileName: texts().Draw(t, "file")}
	})
}
