package runtime_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Where the kernel creates no namespaces, a command shares the network of the system, but has no
// internet socket. An agent that requires the sandbox is unavailable.
func TestSandboxWithoutNamespaces(t *testing.T) {
	if !restrictKernel(t, false) {
		return
	}
	c := serveConfined(t, func(c *confined, cfg *runtime.Config) {
		for id, policy := range map[string]agent.Sandbox{
			"required": {Mode: agent.SandboxRequired}, "required-all": {Mode: agent.SandboxRequired, Network: agent.NetworkAll},
			"required-none": {Mode: agent.SandboxRequired, Network: agent.NetworkNone},
		} {
			required := cfg.Agents[0]
			required.ID, required.Sandbox = id, policy
			cfg.Agents = append(cfg.Agents, required)
		}
	})
	require.Len(t, c.Unavailable(), 3)
	require.ErrorContains(t, c.Unavailable()["required-none"], "sandbox.mode is required, and this system cannot enforce the sandbox: namespaces cannot be created: ")
	detail := c.detail(t, "helper")
	require.Equal(t, wire.StatusReady, detail.Status)
	require.Equal(t, []any{wire.SandboxPartial, true, true}, []any{detail.Sandbox.Mode, detail.Sandbox.Files, detail.Sandbox.Network})
	require.Contains(t, detail.Sandbox.Reason, "namespaces cannot be created: ")
	require.Equal(t, wire.SandboxPartial, c.detail(t, "required").Sandbox.Mode)
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
