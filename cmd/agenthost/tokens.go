package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

func tokenColumns(t wire.Token) []field {
	return []field{
		{"name", t.Name},
		{"prefix", t.Prefix},
		{"created", t.CreatedAt},
		{"expires", t.ExpiresAt},
		{"last used", t.LastUsedAt},
	}
}

func (a *app) tokensCommand() *cobra.Command {
	var days int
	create := a.command(action{
		use: "create NAME", short: "Issue a CLI token", args: []string{"NAME"},
		long:    "Issues a token for programs with the role of the user, and prints it once. With --quiet, it prints only the token.",
		example: "  agenthost tokens create ci --days 90\n  AGENTHOST_TOKEN=$(agenthost tokens create ci -q)",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			req := wire.IssueTokenRequest{Name: args[0]}
			if days > 0 {
				req.ExpiresInDays = &days
			}

			token, err := c.Auth.IssueToken(ctx, req)
			if err != nil {
				return err
			}

			return a.printOne(token,
				field{"token", token.Token},
				field{"name", token.Name},
				field{"expires", token.ExpiresAt},
			)
		},
	})
	create.Flags().IntVar(&days, "days", 0, "`number` of days that the token is valid (default until it is revoked)")
	return group("tokens", "Issue, list and revoke CLI tokens of the user", "  agenthost tokens create ci --days 90",
		create,
		a.command(action{
			use: "list", short: "List the CLI tokens of the user", example: "  agenthost tokens list",
			run: func(ctx context.Context, c *client.Client, _ []string) error {
				return printList(a, c.Auth.Tokens(ctx), tokenColumns)
			},
		}),
		a.command(action{
			use: "revoke TOKEN", short: "Revoke a CLI token of the user", args: []string{"TOKEN"}, complete: tokenNames,
			example: "  agenthost tokens revoke ci",
			goes: func(_ context.Context, _ *client.Client, args []string) (string, error) {
				return fmt.Sprintf("The token %s will be revoked: programs that use it are rejected.", args[0]), nil
			},
			run: func(ctx context.Context, c *client.Client, args []string) error {
				token, err := findToken(c.Auth.Tokens(ctx), args[0])
				if err != nil {
					return err
				}

				if err := c.Auth.RevokeToken(ctx, token.ID); err != nil {
					return err
				}

				return a.result("The token %s is revoked.", token.Name)
			},
		}),
	)
}
