package main_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed93082962/agenthost/cmd/internal/daemontest"
)

// Ctrl-C cancels an answer, also at the runtime, and ends what follows a log.
func TestInterrupts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer end(t, p)
	p.Await(t, p.Stdout, running)
	c := clientOf(t, p, dir)
	binary, err := built()
	require.NoError(t, err)
	spawn := func(args ...string) *daemontest.Process {
		return daemontest.Spawn(t, binary, dir, []string{"AGENTHOST_CONFIG", filepath.Join(dir, "config")}, args...)
	}
	chat := spawn("chat", "demo", "-m", strings.Repeat("a long message ", 1500))
	chat.Await(t, chat.Stdout, regexp.MustCompile("the demo model"))
	chat.Signal(t, syscall.SIGINT)
	require.Equal(t, 130, chat.Exit(t))
	require.Eventually(t, func() bool {
		for session, err := range c.Chats.List(t.Context(), "demo") {
			require.NoError(t, err)
			for message, err := range c.Chats.Messages(t.Context(), "demo", session.ID) {
				require.NoError(t, err)
				if message.Role == "assistant" && message.Status == "cancelled" {
					return true
				}
			}
		}
		return false
	}, daemontest.Patience, 20*time.Millisecond)

	audit := spawn("audit", "list", "-f")
	audit.Await(t, audit.Log, regexp.MustCompile("Entries after"))
	_, err = c.Deployments.Stop(t.Context(), "demo")
	require.NoError(t, err)
	audit.Await(t, audit.Stdout, regexp.MustCompile(`agent\.stop`))
	audit.Signal(t, syscall.SIGINT)
	require.Zero(t, audit.Exit(t))

	logs := spawn("logs", "demo", "-f")
	logs.Await(t, logs.Stdout, regexp.MustCompile("."))
	logs.Signal(t, syscall.SIGINT)
	require.Zero(t, logs.Exit(t))
}

// An answer continues if its terminal is closed, and is shown again.
func TestAnAnswerOfAClosedTerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startDev(t, dir, nil)
	defer end(t, p)
	p.Await(t, p.Stdout, running)
	binary, err := built()
	require.NoError(t, err)
	spawn := func(args ...string) *daemontest.Process {
		return daemontest.Spawn(t, binary, dir, []string{"AGENTHOST_CONFIG", filepath.Join(dir, "config")}, args...)
	}
	message := strings.Repeat("a long message ", 200) + "and its end"
	chat := spawn("chat", "demo", "-m", message)
	chat.Await(t, chat.Stdout, regexp.MustCompile("the demo model"))
	chat.Signal(t, syscall.SIGHUP)
	require.Equal(t, 130, chat.Exit(t))
	var shown []string
	for range 2 { // in progress, and after its end
		again := spawn("chat", "demo", "--resume")
		require.Zero(t, again.Exit(t))
		require.Contains(t, again.Log.String(), "> a long message")
		shown = append(shown, strings.TrimSpace(again.Stdout.String()))
	}

	c := clientOf(t, p, dir)
	for session, err := range c.Chats.List(t.Context(), "demo") {
		require.NoError(t, err)
		for message, err := range c.Chats.Messages(t.Context(), "demo", session.ID) {
			require.NoError(t, err)
			require.Equal(t, "completed", message.Status)
			if message.Role == "assistant" {
				require.Equal(t, []string{message.Text, message.Text}, shown)
			}
		}
	}
}
