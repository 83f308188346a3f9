package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
)

var tokenColumns = []column[client.Token]{
	{"id", func(t client.Token) string { return t.ID }},
	{"name", func(t client.Token) string { return t.Name }},
	{"prefix", func(t client.Token) string { return t.Prefix }},
	{"created", func(t client.Token) string { return day(t.CreatedAt) }},
	{"expires", func(t client.Token) string { return dayOf(t.ExpiresAt) }},
	{"last used", func(t client.Token) string { return dayOf(t.LastUsedAt) }},
}

func (a *app) tokensCommand() *cobra.Command {
	var days int64
	create := a.command(action{
		use: "create NAME", short: "Issue a CLI token", args: []string{"NAME"},
		long:    "Issues a token for programs with the role of the user, and prints it once. With --quiet, it prints only the token.",
		example: "  agenthost tokens create ci --days 90\n  AGENTHOST_TOKEN=$(agenthost tokens create ci -q)",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			req := client.IssueTokenRequest{Name: args[0]}
			if days > 0 {
				req.ExpiresInDays = &days
			}

			token, err := c.Tokens.Issue(ctx, req)
			if err != nil {
				return err
			}

			return printOne(a, token,
				column[client.NewToken]{"token", func(t client.NewToken) string { return t.Token }},
				column[client.NewToken]{"id", func(t client.NewToken) string { return t.ID }},
				column[client.NewToken]{"name", func(t client.NewToken) string { return t.Name }},
				column[client.NewToken]{"expires", func(t client.NewToken) string { return dayOf(t.ExpiresAt) }},
			)
		},
	})
	create.Flags().Int64Var(&days, "days", 0, "`number` of days that the token is valid (default until it is revoked)")
	return group("tokens", "Issue, list and revoke CLI tokens of the user", "  agenthost tokens create ci --days 90",
		create,
		a.command(action{
			use: "list", short: "List the CLI tokens of the user", example: "  agenthost tokens list",
			run: func(ctx context.Context, c *client.Client, _ []string) error {
				return printList(a, c.Tokens.List(ctx), tokenColumns...)
			},
		}),
		a.command(action{
			use: "revoke TOKEN-ID", short: "Revoke a CLI token of the user", args: []string{"TOKEN-ID"}, complete: tokenIDs,
			example: "  agenthost tokens revoke 0198c0de-0000-7000-8000-000000000000",
			run: func(ctx context.Context, c *client.Client, args []string) error {
				if err := c.Tokens.Revoke(ctx, args[0]); err != nil {
					return err
				}

				return a.result("The token %s is revoked.", args[0])
			},
		}),
	)
}
