// Command runtime serves agents over HTTP.
//
// It reads agents.yaml, or the file that --config names, and hosts a demo agent if there is no such
// file:
//
//	runtime --addr 127.0.0.1:3000
//
// runtime --help lists the flags and the environment variables.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd"
	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd/drivers"
)

func main() {
	if runtimecmd.IsChild() {
		end(runtimecmd.RunChild(drivers.All()))
	}

	if err := daemon.Init(); err != nil {
		fmt.Fprintln(os.Stderr, "runtime: warning:", err)
	}

	end(run(daemon.Signals(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// end exits with the status of err.
func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtime:", err)
		os.Exit(1)
	}

	os.Exit(0)
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	cmd := runtimecmd.Command(drivers.All(), getenv, stdout, stderr)
	cmd.SetArgs(append([]string{}, args...)) // cobra reads os.Args instead of nil
	return cmd.ExecuteContext(ctx)
}
