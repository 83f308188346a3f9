// Package hubcmd is the command that serves the control plane, with the commands of its operators.
// It is the program hub, and a subcommand of agenthost.
package hubcmd

import (
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd"
	"github.com/seed93082962/agenthost/hub"
)

// Command returns the command. It serves until the context of its execution ends.
func Command(getenv func(string) string, stdout, stderr io.Writer) (*cobra.Command, error) {
	s, err := readEnvironment(getenv)
	if err != nil {
		return nil, err
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
			return s.serve(cmd.Context(), daemon.NewLogger(stderr, s.Level), func(h *hub.Hub, addr net.Addr) { welcome(stdout, h, addr) })
		},
	}
	root.Flags().StringVar(&s.Addr, "addr", s.Addr, "`address` to listen on")
	root.Flags().StringVar(&s.MetricsAddr, "metrics-addr", s.MetricsAddr, "private `address` of GET /metrics, for Prometheus and without a key (default off)")
	root.Flags().Var(&s.Level, "log-level", "lowest `level` of the log: debug, info, warn or error")
	root.Flags().DurationVar(&s.DrainTimeout, "drain-timeout", s.DrainTimeout, "how long answers and runs at /runtime continue after SIGTERM, SIGINT or SIGHUP before they are cancelled")
	root.Flags().BoolVar(&s.Check, "check", false, "print every error in the settings, and exit")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists the flags", err, root.CommandPath())
	})
	root.AddCommand(s.commands(stdout, stderr)...)
	runtime, err := runtimecmd.Command(getenv, stdout, stderr)
	if err != nil {
		return nil, err
	}
	root.AddCommand(runtime)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetHelpTemplate(help)
	root.SetVersionTemplate("agenthost hub {{.Version}}\n")
	root.SetHelpCommand(&cobra.Command{Hidden: true})
	root.CompletionOptions.DisableDefaultCmd = true
	return root, nil
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		for cmd.Name() != "hub" {
			cmd = cmd.Parent()
		}
		return fmt.Errorf("unknown argument %q; %s --help lists the commands", args[0], cmd.CommandPath())
	}
	return nil
}
