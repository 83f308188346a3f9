package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/cmd/internal/daemon"
	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
	"github.com/seed93082962/agenthost/cmd/internal/runtimecmd"
)

const rootHelp = `Host LLM agents: a hub on this machine, the servers, and a client of a hub.

Environment of the client commands:
  AGENTHOST_URL      address of a hub, in place of a known one
  AGENTHOST_TOKEN    CLI token for it
  AGENTHOST_OPS_KEY  key of the operations interface, for organizations
  AGENTHOST_CONFIG   directory of the known hubs and their credentials
                     (default agenthost in the user's configuration directory)

agenthost exit-codes lists the exit codes, and agenthost explain what caused an error and what to do.`

// root returns the command line.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "agenthost",
		Short:         "Host LLM agents",
		Long:          rootHelp,
		Version:       daemon.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Example: `  agenthost dev
  agenthost login https://hub.example.com
  agenthost chat helper -m "Hello!"`,
	}
	flags := root.PersistentFlags()
	flags.StringVarP(&a.format, "output", "o", "table", "`format` of the output: table, json or yaml")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "print only names, and no progress")
	flags.StringVar(&a.hub, "hub", "", "`name` of a known hub, in place of the current one")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()); err != nil {
			return usage("%w; %s --help describes them", err, cmd.CommandPath())
		}

		if a.format != "table" && a.format != "json" && a.format != "yaml" {
			return usage("--output %q is not table, json or yaml", a.format)
		}

		return nil
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%w; %s --help lists the flags", err, cmd.CommandPath())
	})
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("agenthost {{.Version}}\n")
	for _, group := range groups {
		root.AddGroup(&cobra.Group{ID: group[0], Title: group[1]})
	}

	a.addServers(root)
	a.addClient(root)
	root.AddCommand(exitCodes(), a.explainCommand())
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	_ = root.RegisterFlagCompletionFunc("hub", a.completeHubs)
	return root
}

// groups of commands in the help, with their titles.
var groups = [][2]string{
	{"serve", "Servers:"}, {"account", "Account:"}, {"agents", "Agents and chats:"}, {"config", "Configuration of agents:"}, {"admin", "Administration:"},
}

// addServers adds the commands that serve.
func (a *app) addServers(root *cobra.Command) {
	hub := hubcmd.Command(hubcmd.Drivers{}, a.getenv, a.stdout, raw(a.stderr)) // its logger escapes texts
	runtime := runtimecmd.Command(runtimecmd.Drivers{}, a.getenv, a.stdout, raw(a.stderr))
	for _, cmd := range []*cobra.Command{a.devCommand(), hub, runtime} {
		cmd.GroupID = "serve"
		cmd.Annotations = map[string]string{"server": "true"}
		root.AddCommand(cmd)
	}
}

// add adds commands in a group of the help.
func add(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, cmd := range commands {
		cmd.GroupID = group
		root.AddCommand(cmd)
	}
}
