package main

import (
	"context"
	"iter"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

func budgetColumns(b wire.Budget) []field {
	return []field{
		{"kind", b.Kind},
		{"name", b.Name},
		{"period", b.Period},
		{"unit", b.Unit},
		{"spent", amount(&b.Spent)},
		{"soft", amount(b.Soft)},
		{"hard", amount(b.Hard)},
		{"resets", b.ResetsAt},
	}
}

func amount(n *float64) string {
	if n == nil {
		return ""
	}

	return strconv.FormatFloat(*n, 'f', -1, 64)
}

func (a *app) budgetsCommand() *cobra.Command {
	return group("budgets", "List and change limits of tokens and cost",
		"  agenthost budgets list\n  agenthost budgets set agent helper --unit cost --hard 100 --soft 80",
		listCommand(a, noun{group: "budgets", one: "budget"}, func(ctx context.Context, c *client.Client) iter.Seq2[wire.Budget, error] {
			return c.Budgets.List(ctx)
		}, budgetColumns),
		a.budgetCommand("get", "Show a budget", "", func(ctx context.Context, c *client.Client, kind, name string) error {
			budget, err := c.Budgets.Get(ctx, kind, name)
			if err != nil {
				return err
			}

			return a.printOne(budget, budgetColumns(budget)...)
		}),
		a.setBudgetCommand(),
		a.budgetCommand("delete", "Delete a budget", "", func(ctx context.Context, c *client.Client, kind, name string) error {
			if err := c.Budgets.Delete(ctx, kind, name); err != nil {
				return err
			}

			return a.result("The budget of the %s %s is deleted.", kind, name)
		}),
	)
}

// budgetCommand returns a command for the budget of an agent or a user.
func (a *app) budgetCommand(verb, short, flags string, run func(ctx context.Context, c *client.Client, kind, name string) error) *cobra.Command {
	cmd := a.command(action{
		use: verb + " KIND NAME", short: short + ": of an agent or a user", args: []string{"KIND", "NAME"},
		example: "  agenthost budgets " + verb + " agent helper" + flags + "\n  agenthost budgets " + verb + " user ada" + flags,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			kind, name := args[0], args[1]
			switch kind {
			case "agent":
			case "user":
				user, err := findUser(ctx, c, name)
				if err != nil {
					return err
				}

				name = user.ID
			default:
				return usage("%q is not agent or user", kind)
			}

			return run(ctx, c, kind, name)
		},
	})
	kinds := cobra.FixedCompletions([]string{"agent", "user"}, cobra.ShellCompDirectiveNoFileComp)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0:
			return kinds(cmd, args, prefix)
		case args[0] == "user":
			return a.completeFlag(userNames)(cmd, args, prefix)
		}

		return a.completeFlag(agentNames)(cmd, args, prefix)
	}
	return cmd
}

func (a *app) setBudgetCommand() *cobra.Command {
	req := wire.BudgetRequest{}
	var soft, hard, reserve float64
	cmd := a.budgetCommand("set", "Create or replace a budget", " --period day --unit tokens --hard 1000000", func(ctx context.Context, c *client.Client, kind, name string) error {
		for _, limit := range []struct {
			value float64
			field **float64
		}{{soft, &req.Soft}, {hard, &req.Hard}, {reserve, &req.Reserve}} {
			if limit.value != 0 {
				*limit.field = &limit.value
			}
		}

		budget, err := c.Budgets.Set(ctx, kind, name, req)
		if err != nil {
			return err
		}

		return a.printOne(budget, budgetColumns(budget)...)
	})
	cmd.Long = `Creates or replaces the budget of an agent or a user. From the soft limit, answers have a warning; messages that would
exceed the hard one are rejected until the period ends. Periods are those of the calendar in UTC.`
	cmd.Flags().StringVar(&req.Period, "period", "month", "`period`: day or month")
	cmd.Flags().StringVar(&req.Unit, "unit", "cost", "`unit`: tokens, or cost in the currency of the prices")
	cmd.Flags().Float64Var(&soft, "soft", 0, "`limit` from which answers have a warning")
	cmd.Flags().Float64Var(&hard, "hard", 0, "`limit` that no run may exceed")
	cmd.Flags().Float64Var(&reserve, "reserve", 0, "`amount` that each run in progress counts (default a hundredth of the hard limit)")
	cmd.MarkFlagsOneRequired("soft", "hard")
	_ = cmd.RegisterFlagCompletionFunc("period", cobra.FixedCompletions([]string{"day", "month"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("unit", cobra.FixedCompletions([]string{"tokens", "cost"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
