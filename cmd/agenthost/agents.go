package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
)

var agentColumns = []column[client.Agent]{
	{"name", func(a client.Agent) string { return a.Name }},
	{"title", func(a client.Agent) string { return a.Title }},
	{"model", func(a client.Agent) string { return a.Model }},
	{"provider", func(a client.Agent) string { return a.ProviderID }},
	{"enabled", func(a client.Agent) string { return yes(a.Enabled) }},
	{"updated", func(a client.Agent) string { return day(a.UpdatedAt) }},
}

var agentDetails = append(agentColumns[:len(agentColumns):len(agentColumns)], []column[client.Agent]{
	{"description", func(a client.Agent) string { return a.Description }},
	{"permissions", func(a client.Agent) string { return a.PermissionMode }},
	{"max turns", func(a client.Agent) string { return strconv.FormatInt(a.MaxTurns, 10) }},
	{"tools", func(a client.Agent) string { return strings.Join(a.Tools, ", ") }},
	{"skills", func(a client.Agent) string { return strings.Join(a.Skills, ", ") }},
	{"MCP servers", func(a client.Agent) string { return strings.Join(a.MCPs, ", ") }},
	{"prompt", func(a client.Agent) string { return a.SystemPrompt }},
}...)

func (a *app) agentsCommand() *cobra.Command {
	return group("agents", "List and change the configurations of agents",
		"  agenthost agents list\n  agenthost agents apply -f helper.yaml",
		a.command(action{
			use: "list", short: "List agents", example: "  agenthost agents list\n  agenthost agents list -o json",
			run: func(ctx context.Context, c *client.Client, _ []string) error {
				return printList(a, c.Agents.List(ctx, ""), agentColumns...)
			},
		}),
		a.command(action{
			use: "get AGENT", short: "Show an agent", example: "  agenthost agents get helper -o yaml", args: []string{"AGENT"}, complete: agentNames,
			run: func(ctx context.Context, c *client.Client, args []string) error {
				agent, err := c.Agents.Get(ctx, args[0])
				if err != nil {
					return err
				}
				return printOne(a, agent, agentDetails...)
			},
		}),
		a.createAgentCommand(), a.applyCommand(), a.diffCommand(), a.editCommand(),
		a.command(action{
			use: "export AGENT", short: "Print an agent as a configuration file of the runtime",
			long:    "Prints an agent as a configuration file of the runtime, in YAML. agents apply and agents diff read it.",
			example: "  agenthost agents export helper > helper.yaml", args: []string{"AGENT"}, complete: agentNames,
			run: func(ctx context.Context, c *client.Client, args []string) error {
				text, err := c.Agents.Export(ctx, args[0])
				if err != nil {
					return err
				}
				_, err = a.stdout.Write(text)
				return err
			},
		}),
		a.command(action{
			use: "delete AGENT", short: "Delete an agent that is not deployed", example: "  agenthost agents delete helper", args: []string{"AGENT"}, complete: agentNames,
			run: func(ctx context.Context, c *client.Client, args []string) error {
				if err := c.Agents.Delete(ctx, args[0]); err != nil {
					return err
				}
				return a.result("The agent %s is deleted.", args[0])
			},
		}),
	)
}

func (a *app) createAgentCommand() *cobra.Command {
	var req client.AgentRequest
	var promptFile string
	cmd := a.command(action{
		use: "create AGENT", short: "Create an agent",
		example: `  agenthost agents create helper --provider anthropic --model claude-sonnet-4-5 --prompt "You write plainly."
  agenthost agents create coder --provider openai --model gpt-5-mini --prompt-file coder.md --tool Read --tool Grep`,
		args: []string{"AGENT"},
		run: func(ctx context.Context, c *client.Client, args []string) error {
			req.Name = args[0]
			if promptFile != "" {
				text, err := os.ReadFile(promptFile)
				if err != nil {
					return fmt.Errorf("read prompt: %w", err)
				}
				req.SystemPrompt = string(text)
			}
			agent, err := c.Agents.Create(ctx, req)
			if err != nil {
				return err
			}
			return printOne(a, agent, agentDetails...)
		},
	})
	flags := cmd.Flags()
	flags.StringVar(&req.ProviderID, "provider", "", "`id` of the provider (required)")
	flags.StringVar(&req.Model, "model", "", "`model` of the provider (required)")
	flags.StringVar(&req.Title, "title", "", "`title` (default the name)")
	flags.StringVar(&req.Description, "description", "", "what the agent is for")
	flags.StringVar(&req.SystemPrompt, "prompt", "", "system `prompt`")
	flags.StringVar(&promptFile, "prompt-file", "", "`file` with the system prompt")
	flags.StringVar(&req.PermissionMode, "permissions", "", "`mode`: default, acceptEdits, bypassPermissions, plan, dontAsk or auto")
	flags.StringArrayVar(&req.Tools, "tool", nil, "`name` of a mounted tool; repeat it for several")
	flags.StringArrayVar(&req.AllowedTools, "allow", nil, "`rule` of calls that need no approval; repeat it for several")
	flags.StringArrayVar(&req.Skills, "skill", nil, "`name` of a mounted skill; repeat it for several")
	_ = cmd.RegisterFlagCompletionFunc("provider", a.completeFlag(providerIDs))
	_ = cmd.RegisterFlagCompletionFunc("tool", a.completeFlag(toolNames))
	_ = cmd.RegisterFlagCompletionFunc("skill", a.completeFlag(skillNames))
	cmd.MarkFlagsMutuallyExclusive("prompt", "prompt-file")
	return cmd
}
