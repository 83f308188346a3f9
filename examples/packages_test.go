package examples_test

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/internal/db/pgtest"
)

// listening starts a server and returns its address.
func listening(t *testing.T, server *exec.Cmd) string {
	t.Helper()
	stdout, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

// usePackages runs the examples of packages that need no agent.
func usePackages(t *testing.T, bin string) {
	t.Run("audit", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "audit"), "-database", pgtest.URL(t)).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, "transfer: <nil>\ntransfer: the account has too little money\n"+
			`1 ada account.transfer {"from":"ada","to":"bob","cents":300}`+"\nthe chain of hashes is complete: true\n", string(out))
	})
	t.Run("files", func(t *testing.T) { serveFiles(t, filepath.Join(bin, "files")) })
	t.Run("stream", func(t *testing.T) {
		server := exec.CommandContext(t.Context(), filepath.Join(bin, "stream"), "-addr", "127.0.0.1:0")
		url := listening(t, server)
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "stream"), "-read", url).Output()
		require.NoError(t, err)
		var want strings.Builder
		for percent := 10; percent <= 100; percent += 10 {
			fmt.Fprintf(&want, "progress {\"percent\": %d}\n", percent)
		}
		require.Equal(t, want.String(), string(out))
		require.NoError(t, server.Process.Kill())
		require.Error(t, server.Wait(), "it was killed")
	})
}
