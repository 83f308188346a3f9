package runtime_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/runvalue"
	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Where the kernel creates no namespaces, a command shares the network of the system, but has no
// internet socket. An agent that requires the sandbox is unavailable.
func TestSandboxWithoutNamespaces(t *testing.T) {
	if !restrictKernel(t, false) {
		return
	}
	c := serveConfined(t, func(c *confined, cfg *runtime.Config) {
		for id, policy := range map[string]agent.Sandbox{
			"required": {Mode: agentvalue.SandboxRequired}, "required-all": {Mode: agentvalue.SandboxRequired, Network: agentvalue.NetworkAll},
			"required-none": {Mode: agentvalue.SandboxRequired, Network: agentvalue.NetworkNone},
		} {
			required := cfg.Agents[0]
			required.ID, required.Sandbox = id, policy
			cfg.Agents = append(cfg.Agents, required)
		}
	})
	require.Len(t, c.Unavailable(), 3)
	require.ErrorContains(t, c.Unavailable()["required-none"], "sandbox.mode is required, and this system cannot enforce the sandbox: namespaces cannot be created: ")
	detail := c.detail(t, "helper")
	require.Equal(t, "ready", detail.Status)
	require.Equal(t, []any{runvalue.SandboxPartial, true, true}, []any{detail.Sandbox.Mode, detail.Sandbox.Files, detail.Sandbox.Network})
	require.Contains(t, detail.Sandbox.Reason, "namespaces cannot be created: ")
	require.Equal(t, runvalue.SandboxPartial, c.detail(t, "required").Sandbox.Mode)
	got := c.bash(t, `python3 -c '
import socket
for family in range(64):
  for kind in range(1, 11):
    for protocol in 0, 6, 17, 132, 262:
      try: s = socket.socket(family, kind, protocol)
      except OSError: continue
      if s.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) != socket.AF_UNIX: print("internet socket", family, kind, protocol)
print("tried")'`)
	require.Equal(t, outcome{Output: "tried\n"}, got)
	got = c.bash(t, viaProxy("GET http://169.254.169.254/"))
	require.Contains(t, got.Output, " 403 Forbidden")
}

// The commands of an agent, and no other process, have its variables, each once.
func TestEnvironmentOfCommands(t *testing.T) {
	for _, mode := range []string{agentvalue.SandboxAuto, agentvalue.SandboxOff} {
		c := serveConfined(t, func(_ *confined, cfg *runtime.Config) {
			other := cfg.Agents[0]
			cfg.Agents[0].Sandbox.Mode = mode
			cfg.Agents[0].CommandEnv = map[string]agent.Secret{"GIT_AUTHOR_NAME": "Coder", "TOKEN": "planted $(id) ${X}", "LANG": "C", "PATH": "/usr/bin:/bin"}
			other.ID = "other"
			cfg.Agents = append(cfg.Agents, other)
		})
		got := c.bash(t, `echo "$GIT_AUTHOR_NAME,$TOKEN,$LANG,$PATH"; env | grep -c ^PATH=; env | grep -c ^LANG=`)
		require.Equal(t, outcome{Output: "Coder,planted $(id) ${X},C,/usr/bin:/bin\n1\n1\n"}, got)
		for _, id := range []string{"helper", "other"} {
			require.NotContains(t, c.do(t, "GET", "/v1/agents/"+id, "").body, "planted")
		}
	}
}

// Commands of an agent with all permissions see protected paths of the working directory read-only,
// unless its sandbox names them: names with a dot, the agent home, and files that an agent names.
func TestProtectedPathsOfCommands(t *testing.T) {
	c := serveConfined(t, func(c *confined, cfg *runtime.Config) {
		for _, path := range []string{"home/skills/s/SKILL.md", "sub/.husky/pre-commit", "prompt.md", "tool.ts", "sub/.cache/x", ".gitignore", ".agents/file"} {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(c.cwd, path)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(c.cwd, path), []byte("original"), 0o600))
		}
		cfg.AgentHome = "home"
		cfg.ProtectedPaths = []string{filepath.Join(c.cwd, "tool.ts")}
		cfg.Agents[0].Sandbox = agent.Sandbox{Write: []string{"sub/.cache"}}
		cfg.Agents[0].SystemPromptFile = filepath.Join(c.cwd, "prompt.md")
	})
	for _, path := range []string{"home/skills/s/SKILL.md", "sub/.husky/pre-commit", "prompt.md", "tool.ts", ".agents/file"} {
		got := c.bash(t, "echo attack >> "+path)
		require.True(t, got.IsError, path)
		require.Contains(t, got.Output, "Read-only file system", path)
		require.Contains(t, got.Output, "existing names that begin with a dot are read-only. An operator permits more with sandbox.read, sandbox.write", path)
		content, err := os.ReadFile(filepath.Join(c.cwd, path))
		require.NoError(t, err)
		require.Equal(t, "original", string(content), path)
	}
	for _, path := range []string{"sub/.cache/x", "sub/new", ".gitignore", ".new"} {
		require.Equal(t, outcome{Output: "(no output)"}, c.bash(t, "echo more >> "+path), path)
	}
}
