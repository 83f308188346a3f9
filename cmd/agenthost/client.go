package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
)

// addClient adds the commands of a client.
func (a *app) addClient(root *cobra.Command) {
	add(root, "account", a.loginCommand(), a.logoutCommand(), a.whoamiCommand(), a.hubsCommand(), a.healthCommand(), a.passwordCommand(), a.tokensCommand(), a.loginsCommand())
	add(root, "agents", a.agentsCommand(), a.deployCommand(), a.undeployCommand(), a.statusCommand(), a.rollbackCommand(), a.logsCommand(),
		a.chatCommand(), a.connectCommand(), a.approvalsCommand(), a.sessionsCommand(), a.runsCommand(), a.pushCommand(), a.filesCommand())
	add(root, "config", a.providersCommand(), a.toolsCommand(), a.skillsCommand(), a.mcpsCommand(), a.knowledgeCommand(), a.scenesCommand())
	add(root, "admin", a.usersCommand(), a.invitesCommand(), a.auditCommand(), a.usageCommand(), a.budgetsCommand(), a.labelsCommand(), a.organizationsCommand())
}

// exactly requires an argument for each name.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usage("%s needs %s; see %s --help", cmd.CommandPath(), strings.Join(names, " and "), cmd.CommandPath())
		}

		return nil
	}
}

// group returns a command that only has subcommands.
func group(use, short, example string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage("unknown command %q; %s --help lists the commands", args[0], cmd.CommandPath())
		}

		return nil
	}, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(commands...)
	return cmd
}

// action is a command that calls the selected hub.
type action struct {
	use, short, long, example string
	args                      []string // names of the arguments
	complete                  names    // of the first argument
	files                     bool     // the first argument is a file

	// goes returns sentences about the objects that the command removes, or "" if it removes nothing.
	// The command asks before it runs, unless --yes is given. Nil for other commands.
	goes func(ctx context.Context, c *client.Client, args []string) (string, error)

	run func(ctx context.Context, c *client.Client, args []string) error
}

// command returns the command of an action.
func (a *app) command(act action) *cobra.Command {
	yes := act.goes == nil
	cmd := &cobra.Command{
		Use: act.use, Short: act.short, Long: act.long, Example: act.example, Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}

			if !yes {
				what, err := act.goes(cmd.Context(), c, args)
				if err == nil && what != "" {
					err = a.confirm(cmd.Context(), what+"\n", "Continue?")
				}

				if err != nil {
					return err
				}
			}

			return act.run(cmd.Context(), c, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	if len(act.args) > 0 {
		cmd.Args = exactly(act.args...)
	}

	if act.goes != nil {
		cmd.Flags().BoolVar(&yes, "yes", false, "ask nothing (required without a terminal)")
	}

	if act.files {
		cmd.ValidArgsFunction = nil
	}

	if act.complete != nil {
		cmd.ValidArgsFunction = a.completeArgs(act.complete)
	}

	return cmd
}

// completionPatience bounds the time that a completion waits for the hub.
const completionPatience = 2 * time.Second

// names returns the names that can be completed.
type names func(ctx context.Context, c *client.Client) ([]string, error)

// completeArgs completes the first argument with names from the hub.
func (a *app) completeArgs(list names) cobra.CompletionFunc {
	complete := a.completeFlag(list)
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault // perhaps a file
		}

		return complete(cmd, args, prefix)
	}
}

// completeFlag completes a flag with names from the hub.
func (a *app) completeFlag(list names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		c, err := a.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}

		ctx, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), completionPatience)
		defer cancel()
		all, _ := list(ctx, c) // the names before an error
		var found []string
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				found = append(found, name)
			}
		}

		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
