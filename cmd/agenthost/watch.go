package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
)

// watchInterval is the time between two looks at the MCP servers of the agents.
const watchInterval = 2 * time.Second

// watchServers prints the MCP servers that are not connected, each fault once, until ctx ends.
func (d *dev) watchServers(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	printed := map[string]string{} // by agents
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}

		for agent, err := range d.client.Agents.List(ctx, "") {
			if err != nil {
				break // the next look
			}

			state, err := d.client.Deployments.Get(ctx, agent.Name)
			if err != nil {
				break
			}

			now := faultsOfServers(state)
			if now != printed[agent.Name] {
				for line := range strings.Lines(now) {
					d.printFault(ctx, agent.Name, strings.TrimSpace(line))
				}
			}

			printed[agent.Name] = now
		}
	}
}

// faultsOfServers returns a line for each MCP server that is not connected.
func faultsOfServers(state wire.Deployment) string {
	for _, condition := range state.Conditions {
		if condition.Type == "McpServersReady" && !condition.Status {
			return condition.Message
		}
	}

	return ""
}

// printFault prints a fault of an MCP server, which begins with its name, with the setting to
// change.
func (d *dev) printFault(ctx context.Context, agent, fault string) {
	name, state, _ := strings.Cut(fault, " ")
	if state == "is pending" {
		fmt.Fprintf(d.stderr, "agenthost dev: agent %s: the MCP server %s is not connected yet\n", agent, printable(name))
		return
	}

	setting := "command"
	switch server, err := d.client.MCPs.Get(ctx, name); {
	case err == nil && server.URL != "" && (strings.Contains(fault, "401") || strings.Contains(fault, "403")):
		setting = "headers"
	case err == nil && server.URL != "":
		setting = "url"
	}

	fmt.Fprintf(d.stderr, "agenthost dev: agent %s: the MCP server %s (setting mcpServers.%s.%s)\n", agent, printable(fault), name, setting)
}
