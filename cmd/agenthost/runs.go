package main

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

func (a *app) runsCommand() *cobra.Command {
	runs := noun{group: "runs", one: "run", names: func(ctx context.Context, c *client.Client) ([]string, error) {
		return collect(c.Runs.List(ctx), func(r wire.ChatRun) string { return r.RunID + "\t" + r.AgentName + ", " + r.UserName })
	}}
	list := listCommand(a, runs, func(ctx context.Context, c *client.Client) iter.Seq2[wire.ChatRun, error] {
		return c.Runs.List(ctx)
	}, func(r wire.ChatRun) []field {
		return []field{
			{"id", r.RunID},
			{"state", r.State},
			{"agent", r.AgentName},
			{"user", r.UserName},
			{"session", r.SessionID},
			{"started", r.StartedAt},
		}
	})
	list.Short = "List the answers in progress"
	return group("runs", "List and cancel the answers in progress of the organization", "  agenthost runs list\n  agenthost runs cancel 0198c0de-0000-7000-8000-000000000000",
		list,
		a.command(action{
			use: "cancel RUN", short: "Cancel an answer in progress", args: []string{"RUN"}, complete: runs.names,
			example: "  agenthost runs cancel 0198c0de-0000-7000-8000-000000000000",
			run: func(ctx context.Context, c *client.Client, args []string) error {
				if err := c.Runs.Cancel(ctx, args[0]); err != nil {
					return err
				}

				return a.result("The run %s is cancelled.", args[0])
			},
		}),
	)
}
