package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

func (a *app) importServersCommand() *cobra.Command {
	return a.command(action{
		use: "import FILE", short: "Import the MCP servers of another program", args: []string{"FILE"}, files: true,
		long: `Creates or updates the MCP servers of .mcp.json, claude_desktop_config.json, or mcp.json of VS Code. The
values of ${NAME}, ${NAME:-default}, ${env:NAME} and ${input:id} are those of the environment, where the
input api-key is API_KEY. The hub seals the values of env and headers. If a server is not valid, the command
changes nothing. It deletes no server.`,
		example: "  agenthost mcps import .mcp.json\n  API_KEY=... agenthost mcps import .vscode/mcp.json",
		run: func(ctx context.Context, c *client.Client, args []string) error {
			text, err := a.readFile(args[0])
			if err != nil {
				return err
			}

			servers, err := parseServers(args[0], text, a.getenv)
			if err != nil {
				return usage("%w", err)
			}

			stored := make([]wire.MCP, len(servers))
			for i, req := range servers {
				stored[i], err = c.MCPs.Get(ctx, req.Name)
				if err != nil && !errors.Is(err, wire.NotFound) {
					return err
				}
			}

			for i, req := range servers {
				state, err := importServer(ctx, c, req, stored[i])
				if err != nil { // of a limit that only the hub knows
					for j := range i {
						if stored[j].Version == 0 {
							err = errors.Join(err, c.MCPs.Delete(ctx, servers[j].Name))
						}
					}

					return fmt.Errorf("import %s, the servers that were created are deleted again: %w", req.Name, err)
				}

				if err := a.result("The MCP server %s is %s.", req.Name, state); err != nil {
					return err
				}
			}

			return nil
		},
	})
}

// importServer creates a server, or gives a stored one the settings of a file. Settings that such a
// file does not have are those of the stored one.
func importServer(ctx context.Context, c *client.Client, req wire.MCPRequest, stored wire.MCP) (string, error) {
	if stored.Version == 0 {
		_, err := c.MCPs.Create(ctx, req)
		return "created", err
	}

	updated := req
	updated.Title = stored.Title
	updated.Sandbox = stored.Sandbox
	updated.Instructions = stored.Instructions
	if req.Description == "" {
		updated.Description = stored.Description
	}

	if req.Timeout == "" {
		updated.Timeout = stored.Timeout
	}

	if req.Enabled == nil {
		updated.Enabled = &stored.Enabled
	}

	if stored.Transport == req.Transport {
		updated.OAuth = stored.OAuth
	}

	now, err := c.MCPs.Update(ctx, req.Name, stored.Version, updated)
	if err == nil && now.Version == stored.Version {
		return "unchanged", nil
	}

	return "updated", err
}
