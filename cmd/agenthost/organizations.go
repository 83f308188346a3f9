package main

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

var organizationKind = noun{group: "organizations", one: "organization", example: "acme", names: func(ctx context.Context, c *client.Client) ([]string, error) {
	return collect(c.TenantClients.List(ctx), func(t wire.TenantClient) string { return t.Org })
}}

func organizationColumns(t wire.TenantClient) []field {
	return []field{
		{"organization", t.Org},
		{"issuer", t.Issuer},
		{"client", t.ClientID},
		{"provider", t.Provider},
		{"default", t.IsDefault},
		{"updated", t.UpdatedAt},
	}
}

func (a *app) organizationsCommand() *cobra.Command {
	list := listCommand(a, organizationKind, func(ctx context.Context, c *client.Client) iter.Seq2[wire.TenantClient, error] {
		return c.TenantClients.List(ctx)
	}, organizationColumns)
	cmd := group("organizations", "Register the organizations of a hub with their identity providers, as its operator",
		"  agenthost organizations list\n  agenthost organizations apply -f acme.yaml",
		list, a.applyOrganizationCommand(),
		a.deleteCommand(organizationKind, ", which ends the access of its users", func(context.Context, *client.Client, string) (string, error) {
			return "Its users can no longer sign in.", nil
		}, func(ctx context.Context, c *client.Client, org string) error {
			return c.TenantClients.Delete(ctx, org)
		}),
	)
	cmd.Long = "Registers the organizations of a hub whose users sign in with identity providers. AGENTHOST_OPS_KEY is the key of its\noperations interface (HUB_OPS_KEY of the hub)."
	return cmd
}

func (a *app) applyOrganizationCommand() *cobra.Command {
	var path string
	cmd := a.command(action{
		use: "apply", short: "Register or change the organizations of a file",
		long: `Registers or changes the organizations of a file: one object or a list of them, in YAML or JSON, such as

  org: acme
  clientId: agenthost
  clientSecret: ...
  issuer: https://idp.example.com`,
		example: "  agenthost organizations apply -f acme.yaml",
		run: func(ctx context.Context, c *client.Client, _ []string) error {
			objects, err := a.readObjects(path)
			if err != nil {
				return err
			}

			for _, object := range objects {
				delete(object, "hasSecret") // only in responses
				delete(object, "hasCert")
				var req wire.TenantClientRequest
				if err := decodeObject(object, &req); err != nil {
					return usage("%s: %w", path, err)
				}

				registered, err := c.TenantClients.Set(ctx, req)
				if err != nil {
					return err
				}

				if err := a.printOne(registered, organizationColumns(registered)...); err != nil {
					return err
				}
			}

			return nil
		},
	})
	fileFlag(cmd, &path, "organizations")
	return cmd
}
