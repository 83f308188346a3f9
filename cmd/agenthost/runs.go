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
		return collect(c.History.Runs(ctx), func(r wire.ChatRun) string {
			return reference(r.RunID).String() + "\t" + r.AgentName + ", " + r.UserName
		})
	}}
	list := listCommand(a, runs, func(ctx context.Context, c *client.Client) iter.Seq2[wire.ChatRun, error] {
		return c.History.Runs(ctx)
	}, func(r wire.ChatRun) []field {
		return []field{
			{"run", reference(r.RunID)},
			{"state", r.State},
			{"agent", r.AgentName},
			{"user", r.UserName},
			{"session", reference(r.SessionID)},
			{"started", r.StartedAt},
		}
	})
	list.Short = "List the answers in progress"
	return group("runs", "List and cancel the answers in progress of the organization", "  agenthost runs list\n  agenthost runs cancel 5f3a91c2",
		list,
		a.command(action{
			use: "cancel RUN", short: "Cancel an answer in progress", args: []string{"RUN"}, complete: runs.names,
			example: "  agenthost runs cancel 5f3a91c2",
			run: func(ctx context.Context, c *client.Client, args []string) error {
				run, err := find(runs, c.History.Runs(ctx), args[0], func(r wire.ChatRun) identity { return identity{id: reference(r.RunID)} })
				if err != nil {
					return err
				}

				if err := c.History.CancelRun(ctx, run.RunID); err != nil {
					return err
				}

				return a.result("The answer of %s to %s is cancelled.", run.AgentName, run.UserName)
			},
		}),
	)
}
