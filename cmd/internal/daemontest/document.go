package daemontest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
)

// Document tests that a document has the table of settings. With the variable UPDATE, it writes the
// table.
func Document(t testing.TB, path string, settings any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), "| Setting | |\n")
	require.True(t, found)
	_, after, _ := strings.Cut(rest, "\n\n")
	want := strings.TrimRight(before+daemon.Table(settings)+"\n"+after, "\n") + "\n"
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o600))
		return
	}

	require.Equal(t, want, string(text), "UPDATE=1 go test writes it")
}
