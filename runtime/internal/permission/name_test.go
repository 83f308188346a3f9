package permission_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/runtime/internal/permission"
)

func TestProtectedName(t *testing.T) {
	for _, name := range []string{".git", ".GIT", ".env", ".envrc", ".a", "...", ".gitignore.local", ".env.example.sh", ".Husky", "\u200c.git", ". ", ".gitignore "} {
		require.True(t, permission.ProtectedName(name), name)
	}
	for _, name := range []string{"", ".", "..", "git", "a.b", "_", ".gitignore", ".GitIgnore", ".gitattributes", ".dockerignore", ".editorconfig", ".env.example", ".ENV.Example"} {
		require.False(t, permission.ProtectedName(name), name)
	}
}
