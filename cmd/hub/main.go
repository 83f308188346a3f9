// Command hub is the control plane: configuration, deployments, chats, users, and the audit log.
//
// It stores its data in ./data, unless HUB_DATA_DIR or DATABASE_URL is set, and prints the command
// that creates the first admin. To start it:
//
//	hub --addr 127.0.0.1:8080
//
// hub --help lists the commands, the flags and the environment variables.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
	"github.com/seed93082962/agenthost/cmd/internal/hubcmd/drivers"
	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd"
)

func main() {
	if runtimecmd.IsChild() {
		if err := runtimecmd.RunChild(drivers.All().Drivers); err != nil {
			fmt.Fprintln(os.Stderr, "runtime:", err)
			os.Exit(1)
		}

		return
	}

	if err := daemon.Init(); err != nil {
		fmt.Fprintln(os.Stderr, "hub: warning:", err)
	}

	if err := run(daemon.Signals(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "hub:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, or runs the command that args name.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	cmd := hubcmd.Command(drivers.All(), getenv, stdout, stderr)
	cmd.SetArgs(append([]string{}, args...)) // cobra reads os.Args instead of nil
	return cmd.ExecuteContext(ctx)
}
