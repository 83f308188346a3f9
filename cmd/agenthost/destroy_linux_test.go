package main_test

import (
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	main "github.com/seed93082962/agenthost/cmd/agenthost"
)

// Every command that removes something asks before.
func TestCommandsThatRemoveAsk(t *testing.T) {
	t.Parallel()
	n := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		removes := slices.Contains([]string{"delete", "undeploy", "revoke", "revoke-token"}, cmd.Name()) || cmd.Flags().Lookup("remove-key") != nil
		if removes || cmd.CommandPath() == "agenthost users reset-password" {
			n++
			require.NotNil(t, cmd.Flags().Lookup("yes"), cmd.CommandPath())
		}
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(main.Root())
	require.Greater(t, n, 14)
}

// On a terminal, the user decides after a text about what goes.
func TestRemovalIsAskedOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer end(t, p)
	p.Await(t, p.Stdout, running)
	c := clientOf(t, p, dir)
	ask(t, c, "demo", "Hello!")

	undeploy := func(keys string) *exec.Cmd {
		term := openTerminal(t)
		term.enter("y\n") // before the question, which it does not answer
		cmd := term.command(dir, "undeploy", "demo")
		require.NoError(t, cmd.Start())
		term.await(&term.shown, `(?s)The deployment of demo will be removed, which is running: .* 1 conversation, .* 0 answers .*Continue\? \[y/N\]: $`)
		if keys == "" {
			require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		}
		term.enter(keys)
		return cmd
	}
	for keys, code := range map[string]int{"n\n": 1, "\n": 1, "": 130} {
		var exit *exec.ExitError
		require.ErrorAs(t, undeploy(keys).Wait(), &exit, keys)
		require.Equal(t, code, exit.ExitCode(), keys)
		state, err := c.Deployments.Get(t.Context(), "demo")
		require.NoError(t, err)
		require.Equal(t, "running", state.State)
	}
	require.NoError(t, undeploy("yes\n").Wait())
	state, err := c.Deployments.Get(t.Context(), "demo")
	require.NoError(t, err)
	require.NotEqual(t, "running", state.State)
}
