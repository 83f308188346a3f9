package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

func budgetColumns(b wire.Budget, name string) []field {
	return []field{
		{"kind", b.Kind},
		{"name", name},
		{"period", b.Period},
		{"unit", b.Unit},
		{"spent", amount(&b.Spent)},
		{"soft", amount(b.Soft)},
		{"hard", amount(b.Hard)},
		{"resets", b.ResetsAt},
	}
}

// budgetText returns how much of a budget is used, for the user of an agent.
func budgetText(b wire.Budget) string {
	who, what := "You have", "budget"
	if b.Kind == "agent" {
		who = "The agent has"
	}

	if b.Unit == "tokens" {
		what = b.Unit
	}

	period := "today's"
	if b.Period == "month" {
		period = "this month's"
	}

	if b.Hard == nil {
		return fmt.Sprintf("%s used %s %s up to the limit of the warning, %s.", who, period, what, amount(b.Soft))
	}

	return fmt.Sprintf("%s used %.0f %% of %s %s.", who, math.Floor(100*b.Spent / *b.Hard), period, what)
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
		a.command(action{
			use: "list", short: "List the budgets", example: "  agenthost budgets list\n  agenthost budgets list -o json",
			run: func(ctx context.Context, c *client.Client, _ []string) error {
				users, err := usersByID(ctx, c)
				if err != nil {
					return err
				}

				return printList(a, c.Usage.Budgets(ctx), func(b wire.Budget) []field {
					if b.Kind == "agent" {
						return budgetColumns(b, b.Name)
					}

					return budgetColumns(b, cmp.Or(users[b.Name], reference(b.Name).String()))
				})
			},
		}),
		a.budgetCommand("get", "Show a budget", "", nil, func(ctx context.Context, c *client.Client, of budgetOwner) error {
			budget, err := c.Usage.Budget(ctx, of.kind, of.id)
			if err != nil {
				return err
			}

			return a.printOne(budget, budgetColumns(budget, of.name)...)
		}),
		a.setBudgetCommand(),
		a.budgetCommand("delete", "Delete a budget", "", func(_ context.Context, _ *client.Client, args []string) (string, error) {
			return fmt.Sprintf("The budget of the %s %s will be deleted: it no longer limits runs.", args[0], args[1]), nil
		}, func(ctx context.Context, c *client.Client, of budgetOwner) error {
			if err := c.Usage.DeleteBudget(ctx, of.kind, of.id); err != nil {
				return err
			}

			return a.result("The budget of the %s %s is deleted.", of.kind, of.name)
		}),
	)
}

// budgetOwner is the agent or the user of a budget. The id of an agent is its name.
type budgetOwner struct{ kind, id, name string }

// budgetCommand returns a command for the budget of an agent or a user.
func (a *app) budgetCommand(verb, short, flags string, goes func(context.Context, *client.Client, []string) (string, error),
	run func(context.Context, *client.Client, budgetOwner) error,
) *cobra.Command {
	cmd := a.command(action{
		goes: goes,
		use:  verb + " KIND NAME", short: short + ": of an agent or a user", args: []string{"KIND", "NAME"},
		example: "  agenthost budgets " + verb + " agent helper" + flags + "\n  agenthost budgets " + verb + " user ada" + flags,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			of := budgetOwner{kind: args[0], id: args[1], name: args[1]}
			switch of.kind {
			case "agent":
			case "user":
				user, err := findUser(ctx, c, of.name)
				if err != nil {
					return err
				}

				of.id, of.name = user.ID, user.Username
			default:
				return usage("%q is not agent or user", of.kind)
			}

			return run(ctx, c, of)
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
	cmd := a.budgetCommand("set", "Create or replace a budget", " --period day --unit tokens --hard 1000000", nil, func(ctx context.Context, c *client.Client, of budgetOwner) error {
		for _, limit := range []struct {
			value float64
			field **float64
		}{{soft, &req.Soft}, {hard, &req.Hard}, {reserve, &req.Reserve}} {
			if limit.value != 0 {
				*limit.field = &limit.value
			}
		}

		budget, err := c.Usage.SetBudget(ctx, of.kind, of.id, req)
		if err != nil {
			return err
		}

		return a.printOne(budget, budgetColumns(budget, of.name)...)
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
