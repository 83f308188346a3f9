package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

func (a *app) usageCommand() *cobra.Command {
	var filter client.UsageFilter
	var csv, totals bool
	cmd := a.command(action{
		use: "usage", short: "Report tokens and cost of runs",
		long:    "Reports the tokens and the cost of runs by day, agent, user or model.",
		example: "  agenthost usage --by day,agent --from 2026-01-01\n  agenthost usage --by model --csv > usage.csv",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			var err error
			if filter.User, err = userOfRuns(ctx, c, filter); err != nil {
				return err
			}

			if csv {
				export, err := c.Usage.Export(ctx, filter)
				if err != nil {
					return err
				}

				return a.write(export)
			}

			if totals {
				counts, err := c.Usage.Totals(ctx, filter)
				if err != nil {
					return err
				}

				return a.printOne(counts,
					field{"cost", fmt.Sprintf("%.4f", counts.Cost.Float())},
					field{"runs", counts.Runs},
					field{"input", strconv.FormatInt(counts.InputTokens+counts.CacheReadTokens+counts.CacheWriteTokens, 10)},
					field{"output", counts.OutputTokens},
					field{"estimates", counts.Estimates},
				)
			}

			return printList(a, c.Usage.Report(ctx, filter), usageColumns(filter.By))
		},
	})
	flags := cmd.Flags()
	flags.StringSliceVar(&filter.By, "by", []string{"day"}, "`groups`: day, agent, user and model, separated by commas")
	flags.StringVar(&filter.From, "from", "", "first `day`, as 2006-01-02")
	flags.StringVar(&filter.To, "to", "", "last `day`")
	flags.StringVar(&filter.Agent, "agent", "", "only of this `agent`")
	flags.StringVar(&filter.User, "user", "", "only of the `user` with this name or id")
	flags.StringVar(&filter.Model, "model", "", "only of this `model`")
	flags.BoolVar(&csv, "csv", false, "write CSV")
	flags.BoolVar(&totals, "totals", false, "report only the sum")
	cmd.MarkFlagsMutuallyExclusive("csv", "totals")
	_ = cmd.RegisterFlagCompletionFunc("agent", a.completeFlag(agentNames))
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{"day", "agent", "user", "model"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// userOfRuns returns the id of the user of a filter. The runs have the names, since maintainers
// cannot list users, and runs of a deleted user remain. A name without runs is returned as it is.
func userOfRuns(ctx context.Context, c *client.Client, filter client.UsageFilter) (string, error) {
	name := filter.User
	if name == "" {
		return "", nil
	}

	filter.By, filter.User = []string{"user"}, ""
	var ids []string
	for row, err := range c.Usage.Report(ctx, filter) {
		switch {
		case err != nil:
			return "", err
		case row.UserID == name:
			return name, nil
		case strings.EqualFold(row.UserName, name):
			ids = append(ids, row.UserID)
		}
	}

	switch len(ids) {
	case 0:
		return name, nil
	case 1:
		return ids[0], nil
	}

	return "", fmt.Errorf("several users had the name %q: use the id of one: %s", name, strings.Join(ids, ", "))
}

// usageColumns returns the columns of the groups, and those of the counts.
func usageColumns(by []string) func(wire.UsageRow) []field {
	return func(r wire.UsageRow) []field {
		var fields []field
		for _, group := range []field{{"day", r.Day}, {"agent", r.AgentName}, {"user", r.UserName}, {"model", r.Model}} {
			if slices.Contains(by, group.name) {
				fields = append(fields, group)
			}
		}

		return append(fields,
			field{"runs", r.Runs},
			field{"input", r.InputTokens + r.CacheReadTokens + r.CacheWriteTokens},
			field{"output", r.OutputTokens},
			field{"cost", fmt.Sprintf("%.4f", r.Cost.Float())},
			field{"estimates", r.Estimates},
		)
	}
}
