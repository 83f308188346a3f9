package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

func loginColumns(s wire.Session) []field {
	return []field{
		{"sign-in", reference(s.ID)},
		{"program", s.UserAgent},
		{"address", s.RemoteIP},
		{"since", s.CreatedAt},
		{"last used", s.LastUsedAt},
		{"this one", s.Current},
	}
}

func (a *app) loginsCommand() *cobra.Command {
	kind := noun{group: "logins", one: "sign-in", names: func(ctx context.Context, c *client.Client) ([]string, error) {
		return collect(c.Auth.Sessions(ctx), func(s wire.Session) string { return reference(s.ID).String() + "\t" + oneLine(s.UserAgent) })
	}}
	return group("logins", "List and end the own sign-ins, of browsers and of this program", "  agenthost logins list",
		a.command(action{
			use: "list", short: "List the own sign-ins", example: "  agenthost logins list",
			run: func(ctx context.Context, c *client.Client, _ []string) error {
				return printList(a, c.Auth.Sessions(ctx), loginColumns)
			},
		}),
		a.command(action{
			use: "end SIGN-IN", short: "End an own sign-in", args: []string{"SIGN-IN"}, complete: kind.names,
			long:    "Ends an own sign-in, which is given by the first column of agenthost logins list.",
			example: "  agenthost logins end 5f3a91c2",
			run: func(ctx context.Context, c *client.Client, args []string) error {
				login, err := find(kind, c.Auth.Sessions(ctx), args[0], func(s wire.Session) identity { return identity{id: reference(s.ID)} })
				if err != nil {
					return err
				}

				if err := c.Auth.EndSession(ctx, login.ID); err != nil {
					return err
				}

				return a.result("The sign-in %s is ended.", reference(login.ID))
			},
		}),
	)
}

func (a *app) healthCommand() *cobra.Command {
	return a.command(action{
		use: "health", short: "Show the version of the hub, and whether it is ready",
		long:    "Shows the version of the hub. It fails with the exit code 7 if the hub cannot serve requests.",
		example: "  agenthost health\n  agenthost health --hub staging -o json",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			health, err := c.Health(ctx)
			if err != nil {
				return err
			}

			if err := c.Ready(ctx); err != nil {
				return err
			}

			return a.printOne(health,
				field{"status", health.Status},
				field{"version", health.Version},
				field{"uptime", (time.Duration(health.UptimeMS) * time.Millisecond).Round(time.Second).String()},
			)
		},
	})
}
