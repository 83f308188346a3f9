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
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/runtime/tool/js"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == js.WorkerArg {
		work()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second signal has the default effect and ends the process immediately.
	context.AfterFunc(ctx, stop)
	if err := undumpable(); err != nil {
		fmt.Fprintln(os.Stderr, "runtime: warning:", err)
	}
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "runtime:", err)
		os.Exit(1)
	}
}

// work runs this process as a worker for custom tools: the runtime starts its own executable for
// that.
func work() {
	if err := js.Work(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "runtime: worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	s, err := readEnvironment(getenv)
	if err != nil {
		return err
	}
	cmd := &cobra.Command{
		Use:           "runtime",
		Version:       daemon.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown argument %q; runtime --help lists the flags", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return start(cmd.Context(), s, getenv, stdout, stderr)
		},
	}
	s.flags(cmd.Flags())
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w; runtime --help lists the flags", err)
	})
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SetHelpTemplate(help)
	cmd.SetVersionTemplate("agenthost runtime {{.Version}}\n")
	cmd.CompletionOptions.DisableDefaultCmd = true
	return cmd.ExecuteContext(ctx)
}

// start reads the configuration and then checks or serves it.
func start(ctx context.Context, s *settings, getenv func(string) string, stdout, stderr io.Writer) error {
	file, err := s.readFile(getenv)
	if err != nil {
		return err
	}
	if s.Check {
		return s.check(ctx, file, stdout)
	}
	return s.serve(ctx, file, daemon.NewLogger(stderr), stdout)
}
