// Package hubcmd is the command that serves the control plane, with the commands of its operators.
// It is the program hub, and a subcommand of agenthost.
package hubcmd

import (
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd"
	"github.com/seed93082962/agenthost/hub"
)

// Command returns the command. It serves until the context of its execution ends.
func Command(drivers Drivers, getenv func(string) string, stdout, stderr io.Writer) *cobra.Command {
	s := &Settings{Getenv: getenv, drivers: drivers}
	root := &cobra.Command{
		Use:              "hub",
		Short:            "Serve the control plane",
		Version:          daemon.Version(),
		SilenceUsage:     true,
		SilenceErrors:    true,
		Args:             noArguments,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) { s.read(cmd.Flags()) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.checkOnly {
				return s.report(stdout)
			}

			started := func(h *hub.Hub, addr net.Addr) { welcome(stdout, h, addr) }
			ended := func(running int) {
				fmt.Fprintf(stdout, "The hub has ended. Agents that continue to run without it: %d. %s stop-agents stops them.\n", running, cmd.CommandPath())
			}
			return s.serve(cmd.Context(), daemon.NewLogger(stderr, s.Level), started, ended)
		},
	}
	daemon.AddFlags(root.PersistentFlags(), s)
	root.Flags().BoolVar(&s.checkOnly, "check", false, "print every error in the settings, and exit")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w; %s --help lists the flags", err, root.CommandPath())
	})
	root.AddCommand(s.commands(stdout, stderr)...)
	root.AddCommand(runtimecmd.Command(drivers.Drivers, getenv, stdout, stderr))
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetHelpTemplate(strings.Replace(help, "{{settings}}", daemon.Help(s), 1))
	root.SetVersionTemplate("agenthost hub {{.Version}}\n")
	root.SetHelpCommand(&cobra.Command{Hidden: true})
	root.CompletionOptions.DisableDefaultCmd = true
	return root
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
