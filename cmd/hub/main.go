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

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd"
)

func main() {
	if runtimecmd.IsChild() {
		if err := runtimecmd.RunChild(); err != nil {
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
	s, err := readEnvironment(getenv)
	if err != nil {
		return err
	}
	root := &cobra.Command{
		Use:           "hub",
		Short:         "Serve the control plane",
		Version:       daemon.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.Check {
				return s.report(stdout)
			}
			return s.serve(cmd.Context(), daemon.NewLogger(stderr, s.Level), stdout)
		},
	}
	root.Flags().StringVar(&s.Addr, "addr", s.Addr, "`address` to listen on")
	root.Flags().Var(&s.Level, "log-level", "lowest `level` of the log: debug, info, warn or error")
	root.Flags().DurationVar(&s.DrainTimeout, "drain-timeout", s.DrainTimeout, "how long answers continue after SIGTERM, SIGINT or SIGHUP before they are cancelled")
	root.Flags().BoolVar(&s.Check, "check", false, "print every error in the settings, and exit")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w; hub --help lists the flags", err)
	})
	root.AddCommand(s.commands(stdout, stderr)...)
	runtime, err := runtimecmd.Command(getenv, stdout, stderr)
	if err != nil {
		return err
	}
	root.AddCommand(runtime)
	root.SetArgs(append([]string{}, args...)) // cobra reads os.Args instead of nil
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetHelpTemplate(help)
	root.SetVersionTemplate("agenthost hub {{.Version}}\n")
	root.SetHelpCommand(&cobra.Command{Hidden: true})
	root.CompletionOptions.DisableDefaultCmd = true
	return root.ExecuteContext(ctx)
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unknown argument %q; hub --help lists the commands", args[0])
	}
	return nil
}
