// Command agenthost is everything in one program: a hub for development on this machine, the
// servers, and a client of a hub.
//
//	agenthost dev                       # a hub with a demo agent; no set-up
//	agenthost chat demo -m "Hello!"     # in another terminal
//
// agenthost --help lists the commands, and agenthost help exit-codes the exit codes.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd"
	"github.com/seed93082962/agenthost/internal/httpserve"
)

func main() {
	if runtimecmd.IsChild() {
		if err := runtimecmd.RunChild(runtimecmd.Drivers{}); err != nil {
			fmt.Fprintln(os.Stderr, "runtime:", err)
			os.Exit(1)
		}

		return
	}

	if err := daemon.Init(); err != nil {
		fmt.Fprintln(os.Stderr, "agenthost: warning:", err)
	}

	a := &app{name: calledAs(os.Args[0]), getenv: os.Getenv, stdin: os.Stdin, stdout: screenOf(os.Stdout), stderr: screenOf(os.Stderr), notify: daemon.Notify}
	err := a.run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(a.stderr, "agenthost:", a.explain(err))
	}

	os.Exit(exitCode(err))
}

// calledAs returns how the user can call the program again: the file of go run is removed.
func calledAs(arg0 string) string {
	if strings.Contains(filepath.ToSlash(arg0), "/go-build") {
		return "go run ./cmd/agenthost"
	}

	return arg0
}

// app is one execution of the program.
type app struct {
	name   string // with which the user calls the program
	getenv func(string) string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	notify func() chan os.Signal

	format string // of the output: table, json or yaml
	quiet  bool
	hub    string // name of a hub, in place of the current one
}

// run executes the command that args name.
func (a *app) run(ctx context.Context, args []string) error {
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // cobra reads os.Args instead of nil
	signals := a.notify()
	first, second := httpserve.Signals(ctx, signals)
	context.AfterFunc(second, func() { signal.Stop(signals) }) // the third one ends the process
	cmd, err := root.ExecuteContextC(first)
	switch {
	case err == nil || isUsage(err):
	case first.Err() != nil && !served(cmd):
		err = errInterrupted
	case cmd == root || cmd.HasSubCommands():
		err = &usageError{err} // an unknown command
	}

	return err
}

// served reports whether a command is a server, which ends with the first signal.
func served(cmd *cobra.Command) bool { return cmd.Annotations["server"] != "" }

// noArgs rejects arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{fmt.Errorf("unknown argument %q; %s --help lists the flags", args[0], cmd.CommandPath())}
	}

	return nil
}
