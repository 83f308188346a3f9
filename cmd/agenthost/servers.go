package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

func (a *app) importServersCommand() *cobra.Command {
	return a.command(action{
		use: "import FILE", short: "Import the MCP servers of another program", args: []string{"FILE"}, files: true,
		long: `Creates or updates the MCP servers of .mcp.json, claude_desktop_config.json, or mcp.json of VS Code. The
values of ${NAME}, ${NAME:-default}, ${env:NAME} and ${input:id} are those of the environment, where the
input api-key is API_KEY. The hub seals the values of env and headers. If a server is not valid, or cannot be created, the
command changes nothing. It deletes no server.`,
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

			stored := map[string]wire.MCP{}
			for _, req := range servers {
				before, err := c.MCPs.Get(ctx, req.Name)
				if err != nil && !errors.Is(err, wire.NotFound) {
					return err
				}

				stored[req.Name] = before
			}

			for _, req := range servers { // of a version that no server has: the hub checks it, and stores nothing
				if before := stored[req.Name]; before.Version > 0 {
					if _, err := c.MCPs.Update(ctx, req.Name, noVersion, merged(req, before)); !errors.Is(err, wire.PreconditionFailed) {
						return fmt.Errorf("import %s: %w", req.Name, err)
					}
				}
			}

			isNew := func(req wire.MCPRequest) bool { return stored[req.Name].Version == 0 }
			existing := slices.DeleteFunc(slices.Clone(servers), isNew)
			servers = slices.DeleteFunc(servers, func(req wire.MCPRequest) bool { return !isNew(req) })
			servers = append(servers, existing...) // what can be undone comes first
			var changed []string
			for i, req := range servers {
				state, err := importServer(ctx, c, req, stored[req.Name])
				if err != nil { // of a limit that only the hub knows
					for _, other := range servers[:i] {
						if isNew(other) {
							err = errors.Join(err, c.MCPs.Delete(ctx, other.Name))
						}
					}

					text := "the servers that were created are deleted again"
					if len(changed) > 0 {
						text += ", and these have the settings of the file: " + strings.Join(changed, ", ")
					}

					return fmt.Errorf("import %s, %s: %w", req.Name, text, err)
				}

				if state == "updated" {
					changed = append(changed, req.Name)
				}

				if err := a.result("The MCP server %s is %s.", req.Name, state); err != nil {
					return err
				}
			}

			return nil
		},
	})
}

// noVersion is a version that no object has.
const noVersion = math.MaxInt64

// importServer creates a server, or gives a stored one the settings of a file.
func importServer(ctx context.Context, c *client.Client, req wire.MCPRequest, stored wire.MCP) (string, error) {
	if stored.Version == 0 {
		_, err := c.MCPs.Create(ctx, req)
		return "created", err
	}

	now, err := c.MCPs.Update(ctx, req.Name, stored.Version, merged(req, stored))
	if err == nil && now.Version == stored.Version {
		return "unchanged", nil
	}

	return "updated", err
}

// merged returns a request with the settings of a stored server that a file does not have.
func merged(req wire.MCPRequest, stored wire.MCP) wire.MCPRequest {
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

	return updated
}
