package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/wire"
)

// An agent in acceptEdits cannot change the configuration of its runtime.
func TestWritesToTheConfigurationFileAreNotApproved(t *testing.T) {
	dir := write(t, `
cwd: .
stateDir: state
agents:
  - {id: a, model: demo, permissionMode: acceptEdits, systemPromptFile: prompt.md, provider: {protocol: demo}}
`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prompt.md"), []byte("before"), 0o600))
	in := serving(t, nil, "--config", filepath.Join(dir, "agents.yaml"))
	in.Started(t)
	for name, approved := range map[string]bool{"agents.yaml": false, "prompt.md": false, "state/x": false, "other.yaml": true} {
		_, err := clientOf(t, in.URL, "").Complete(t.Context(), "a", wire.RunRequest{
			Message: `/tool Write {"file_path":"` + name + `","content":"after"}`,
		})
		require.NoError(t, err)
		content, _ := os.ReadFile(filepath.Join(dir, name))
		require.Equal(t, approved, string(content) == "after", name)
	}
}
