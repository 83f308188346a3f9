package host_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/client"
	"github.com/seed93082962/agenthost/runtime/host"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// An agent cannot change conversations and downloaded skills, although the program does not name
// their directories as hidden.
func TestDirectoriesOfAHostAreProtected(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"state/sessions", "state/skills", "other/sessions"} {
		require.NoError(t, os.MkdirAll(name, 0o700))
	}
	sessions, err := session.NewFiles(session.FilesConfig{Dir: "other", CWD: dir})
	require.NoError(t, err)
	h, err := host.New(t.Context(), host.Config{
		File: &agent.File{CWD: dir, Agents: []agent.Agent{{
			ID: "a", Model: "demo", PermissionMode: "acceptEdits", Provider: agent.Provider{Protocol: agent.ProtocolDemo},
		}}},
		StateDir: "state", PrivateDir: t.TempDir(), Sessions: sessions,
	})
	require.NoError(t, err)
	defer h.Close()
	server := httptest.NewServer(h)
	defer server.Close()
	c, err := client.New(client.Config{BaseURL: server.URL})
	require.NoError(t, err)
	for name, permitted := range map[string]bool{"state/skills/x": false, "other/sessions/x": false, "x": true} {
		_, err := c.Complete(t.Context(), "a", wire.RunRequest{Message: `/tool Write {"file_path":"` + name + `","content":"after"}`})
		require.NoError(t, err)
		_, err = os.Stat(filepath.Join(dir, name))
		require.Equal(t, permitted, err == nil, name)
	}
}
