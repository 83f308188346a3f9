package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

// agentColumns returns the columns of agents, whose providers have these names by their ids.
func agentColumns(providers map[string]string) func(wire.Agent) []field {
	return func(a wire.Agent) []field {
		return []field{
			{"name", a.Name},
			{"title", a.Title},
			{"model", a.Model},
			{"provider", providers[a.ProviderID]},
			{"enabled", a.Enabled},
			{"updated", a.UpdatedAt},
		}
	}
}

// printAgent prints an agent.
func (a *app) printAgent(ctx context.Context, c *client.Client, agent wire.Agent) error {
	providers, err := providersByID(ctx, c)
	if err != nil {
		return err
	}

	return a.printOne(agent, agentDetails(agent, providers)...)
}

func agentDetails(a wire.Agent, providers map[string]string) []field {
	return append(agentColumns(providers)(a),
		field{"description", a.Description},
		field{"permissions", a.PermissionMode},
		field{"max turns", a.MaxTurns},
		field{"tools", a.Tools},
		field{"skills", a.Skills},
		field{"MCP servers", a.MCPs},
		field{"prompt", a.SystemPrompt},
	)
}

var agentKind = noun{group: "agents", one: "agent", example: "helper", names: agentNames}

func (a *app) agentsCommand() *cobra.Command {
	return group("agents", "List and change the configurations of agents",
		"  agenthost agents list\n  agenthost agents apply -f helper.yaml",
		a.command(action{
			use: "list", short: "List the agents", example: "  agenthost agents list\n  agenthost agents list -o json",
			run: func(ctx context.Context, c *client.Client, _ []string) error {
				providers, err := providersByID(ctx, c)
				if err != nil {
					return err
				}

				return printList(a, c.Agents.List(ctx, ""), agentColumns(providers))
			},
		}),
		a.command(action{
			use: "get AGENT", short: "Show an agent", args: []string{"AGENT"}, complete: agentNames,
			example: "  agenthost agents get helper\n  agenthost agents get helper -o yaml",
			run: func(ctx context.Context, c *client.Client, args []string) error {
				agent, err := c.Agents.Get(ctx, args[0])
				if err != nil {
					return err
				}

				return a.printAgent(ctx, c, agent)
			},
		}),
		a.createAgentCommand(), a.setAgentCommand(), a.applyCommand(), a.diffCommand(), a.editCommand(),
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
		a.deleteCommand(agentKind, " that is not deployed", agentGoes, func(ctx context.Context, c *client.Client, name string) error {
			return c.Agents.Delete(ctx, name)
		}),
	)
}

// agentGoes returns what goes with an agent.
func agentGoes(ctx context.Context, c *client.Client, name string) (string, error) {
	agent, err := c.Agents.Get(ctx, name)
	if err != nil {
		return "", err
	}

	state, err := c.Deployments.Get(ctx, name)
	if err != nil {
		return "", err
	}

	if state.State != wire.StateNotDeployed {
		return "", &wire.Error{
			Status: http.StatusConflict, Code: "agent_deployed",
			Message: fmt.Sprintf("The agent is deployed: agenthost undeploy %s removes its deployment.", agent.Name),
		}
	}

	chats, err := count(c.History.List(ctx, client.HistoryFilter{Agent: agent.Name}), "conversation", nil)
	if err != nil {
		return "", err
	}

	return "Its settings and its budget go with it. It has " + chats + ", which cannot be continued afterwards.", nil
}

func (a *app) createAgentCommand() *cobra.Command {
	flags := &agentFlags{app: a}
	cmd := a.command(action{
		use: "create AGENT", short: "Create an agent",
		example: `  agenthost agents create helper --provider Anthropic --model claude-sonnet-4-5 --prompt "You write plainly."
  agenthost agents create coder --provider OpenAI --model gpt-5-mini --prompt-file coder.md --tool Read --tool Grep`,
		args: []string{"AGENT"},
		run: func(ctx context.Context, c *client.Client, args []string) error {
			req := wire.AgentRequest{Name: args[0]}
			if err := flags.set(ctx, c, &req); err != nil {
				return err
			}

			agent, err := c.Agents.Create(ctx, req)
			if err != nil {
				return err
			}

			return a.printAgent(ctx, c, agent)
		},
	})
	flags.add(cmd)
	return cmd
}

func (a *app) setAgentCommand() *cobra.Command {
	flags := &agentFlags{app: a}
	cmd := a.command(action{
		use: "set AGENT", short: "Change settings of an agent",
		long: "Changes the settings of an agent that have flags. agenthost agents edit changes any.",
		example: `  agenthost agents set helper --model claude-opus-4-5
  agenthost agents set helper --tool Read --tool Grep --enabled=false`,
		args: []string{"AGENT"}, complete: agentNames,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			stored, err := c.Agents.Get(ctx, args[0])
			if err != nil {
				return err
			}

			req, err := requestOf(stored)
			if err != nil {
				return err
			}

			if err := flags.set(ctx, c, &req); err != nil {
				return err
			}

			agent, err := c.Agents.Update(ctx, args[0], stored.Version, req)
			if err != nil {
				return err
			}

			return a.printAgent(ctx, c, agent)
		},
	})
	flags.add(cmd)
	return cmd
}

// agentFlags are the flags of the settings of an agent.
type agentFlags struct {
	*app
	cmd        *cobra.Command
	given      wire.AgentRequest
	enabled    bool
	promptFile string
}

func (f *agentFlags) add(cmd *cobra.Command) {
	f.cmd = cmd
	flags := cmd.Flags()
	flags.StringVar(&f.given.ProviderID, "provider", "", "`name` of the provider")
	flags.StringVar(&f.given.Model, "model", "", "`model` of the provider")
	flags.StringVar(&f.given.Title, "title", "", "`title` (default the name)")
	flags.StringVar(&f.given.Description, "description", "", "what the agent is for")
	flags.StringVar(&f.given.SystemPrompt, "prompt", "", "system `prompt`")
	flags.StringVar(&f.promptFile, "prompt-file", "", "`file` with the system prompt, or - for stdin")
	flags.StringVar(&f.given.PermissionMode, "permissions", "", "`mode`: default, acceptEdits, bypassPermissions, plan, dontAsk or auto")
	flags.StringArrayVar(&f.given.Tools, "tool", nil, "`name` of a mounted tool; repeat it for several")
	flags.StringArrayVar(&f.given.AllowedTools, "allow", nil, "`rule` of calls that need no approval; repeat it for several")
	flags.StringArrayVar(&f.given.Skills, "skill", nil, "`name` of a mounted skill; repeat it for several")
	flags.StringArrayVar(&f.given.MCPs, "mcp", nil, "`name` of a mounted MCP server; repeat it for several")
	flags.BoolVar(&f.enabled, "enabled", true, "offer the agent to users")
	_ = cmd.RegisterFlagCompletionFunc("provider", f.completeFlag(providerNames))
	_ = cmd.RegisterFlagCompletionFunc("tool", f.completeFlag(toolNames))
	_ = cmd.RegisterFlagCompletionFunc("skill", f.completeFlag(skillNames))
	_ = cmd.RegisterFlagCompletionFunc("mcp", f.completeFlag(serverKind.names))
	_ = cmd.RegisterFlagCompletionFunc("permissions", cobra.FixedCompletions(
		[]string{"default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.MarkFlagsMutuallyExclusive("prompt", "prompt-file")
}

// set sets the settings whose flags were given.
func (f *agentFlags) set(ctx context.Context, c *client.Client, req *wire.AgentRequest) error {
	changed := f.cmd.Flags().Changed
	if changed("provider") {
		p, err := findProvider(ctx, c, f.given.ProviderID)
		if err != nil {
			return err
		}

		req.ProviderID = p.ID
	}

	for _, text := range []struct {
		flag     string
		to, from *string
	}{
		{"model", &req.Model, &f.given.Model}, {"title", &req.Title, &f.given.Title},
		{"description", &req.Description, &f.given.Description}, {"prompt", &req.SystemPrompt, &f.given.SystemPrompt},
		{"permissions", &req.PermissionMode, &f.given.PermissionMode},
	} {
		if changed(text.flag) {
			*text.to = *text.from
		}
	}

	for _, list := range []struct {
		flag     string
		to, from *[]string
	}{
		{"tool", &req.Tools, &f.given.Tools}, {"allow", &req.AllowedTools, &f.given.AllowedTools},
		{"skill", &req.Skills, &f.given.Skills}, {"mcp", &req.MCPs, &f.given.MCPs},
	} {
		if changed(list.flag) {
			*list.to = *list.from
		}
	}

	if changed("enabled") {
		req.Enabled = &f.enabled
	}

	if f.promptFile != "" {
		text, err := f.readFile(f.promptFile)
		if err != nil {
			return fmt.Errorf("read prompt: %w", err)
		}

		req.SystemPrompt = string(text)
	}

	return nil
}
