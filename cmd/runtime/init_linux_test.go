package main_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
)

func TestRuntimeAsProcess1(t *testing.T) {
	path, err := binary()
	require.NoError(t, err)
	p := daemontest.Contain(t, path, t.TempDir(), nil, nil, "--addr", "127.0.0.1:0")
	p.Started(t)
	inner := p.RequireOneChild(t)
	p.Inside(t, `for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c 'exit 3' &); done`)
	require.Equal(t, inner, p.RequireOneChild(t))
	p.Signal(t, syscall.SIGTERM)
	require.Zero(t, p.Exit(t), "%s", p.Log)

	p = daemontest.Contain(t, path, t.TempDir(), nil, nil, "--addr", "nowhere")
	require.Equal(t, 1, p.Exit(t))
}
