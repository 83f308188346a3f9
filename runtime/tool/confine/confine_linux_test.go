package confine_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/sandbox"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool/confine"
)

// Each limit of the settings holds for a command.
func TestLimits(t *testing.T) {
	boxes, err := confine.New(confine.Config{CWD: t.TempDir(), Dir: t.TempDir(), Limits: agent.SandboxLimits{
		MaxMemoryBytes: 100 << 20, MaxProcesses: 123, MaxAddressSpaceBytes: 3 << 30, MaxOpenFiles: 77, MaxFileBytes: 5 << 20,
	}})
	require.NoError(t, err)
	box, _, err := boxes.Open(agent.Sandbox{}.In("/"), nil, []string{"PATH=/usr/bin:/bin"})
	require.NoError(t, err)
	t.Cleanup(box.Close)
	run := func(script string) string {
		cmd := &exec.Cmd{Path: "/bin/bash", Args: []string{"bash", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
		var output []byte
		_, err := box.Start(cmd, func() (err error) {
			output, err = cmd.Output()
			return err
		})
		require.NoError(t, err, "%s", output)
		return string(output)
	}
	require.Equal(t, "123\n3145728\n77\n5120\n", run("ulimit -u; ulimit -v; ulimit -n; ulimit -f"))
	output := run("head -c 300M /dev/zero | tail | wc -c") // one line, which tail has in memory
	s, err := sandbox.New(sandbox.Policy{Dir: t.TempDir(), Private: t.TempDir()})
	require.NoError(t, err)
	defer s.Close()
	if s.Support().Memory {
		require.Equal(t, "0\n", output)
	}
}
