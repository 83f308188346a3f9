package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	main "github.com/seed93082962/agenthost/cmd/hub"
	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
)

// hub audit --follow writes the entries of a hub that serves, each once, until it is stopped.
func TestFollowedAuditLog(t *testing.T) {
	t.Parallel()
	env := []string{"HUB_DATA_DIR", t.TempDir()}
	in := serving(t, env)
	token := setUp(t, in)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, written := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- main.Run(ctx, []string{"audit", "--follow"}, daemontest.Getenv(env), written, io.Discard)
		_ = written.Close()
	}()
	lines := bufio.NewScanner(out)
	next := func() (id, action string) {
		require.True(t, lines.Scan())
		var entry struct{ ID, Action string }
		require.NoError(t, json.Unmarshal(lines.Bytes(), &entry))
		return entry.ID, entry.Action
	}
	id, action := next()
	require.Equal(t, "1 auth.setup", id+" "+action)
	for _, want := range []string{"2", "3"} {
		res := call(t, "POST", in.URL+"/api/v1/admin/invites", token, `{"role":"member"}`)
		require.Equal(t, 201, res.status, res.text)
		id, action = next()
		require.Equal(t, want+" invite.create", id+" "+action)
	}
	cancel()
	require.NoError(t, <-ended)
	require.False(t, lines.Scan())
}
