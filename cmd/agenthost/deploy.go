package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

func deploymentColumns(d wire.Deployment) []field {
	return []field{
		{"agent", d.AgentName},
		{"state", d.State},
		{"health", d.Health},
		{"revision", number(d.Revision)},
		{"serving revision", number(d.ServingRevision)},
		{"changed since", d.ConfigDrift},
		{"restarts", d.RestartCount},
		{"public URL", d.PublicURL},
		{"deployed", d.DeployedAt},
		{"deployed by", d.DeployedBy},
		{"error", d.Error},
	}
}

func number(n int64) string {
	if n == 0 {
		return ""
	}

	return strconv.FormatInt(n, 10)
}

// deploy deploys an agent, and with wait prints its states until it runs.
func (a *app) deploy(ctx context.Context, c *client.Client, agent string, wait, force bool) error {
	state, err := c.Deployments.Deploy(ctx, agent, force)
	if err != nil {
		return err
	}

	return a.follow(ctx, c, state, wait)
}

// follow prints the states of a deployment until it runs, unless wait is false.
func (a *app) follow(ctx context.Context, c *client.Client, state wire.Deployment, wait bool) error {
	if wait {
		printed := rollout{app: a, reasons: []string{"The revision starts."}} // its line says so
		var err error
		state, err = awaitDeployment(ctx, c, state, printed.print)
		if failure, ok := errors.AsType[*deployFailure](err); ok && !a.quiet && slices.Contains(printed.reasons, failure.reason) {
			return fmt.Errorf("deploy %s: revision %d did not become ready, for the reason above", failure.agent, state.Revision)
		}

		if err != nil {
			return err
		}
	}

	if a.format != "table" {
		return a.encode(state)
	}

	return a.result("The agent %s is %s, revision %d.", state.AgentName, state.State, state.Revision)
}

func (a *app) deployCommand() *cobra.Command {
	var wait, force, rotate bool
	cmd := a.command(action{
		use: "deploy AGENT", short: "Deploy an agent",
		long:    "Deploys the current configuration of an agent. With --wait, it prints each state until the agent runs; it fails if the deployment does.",
		example: "  agenthost deploy helper --wait\n  agenthost deploy helper --rotate-key", args: []string{"AGENT"}, complete: agentNames,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			if rotate {
				state, err := c.Deployments.RotateKey(ctx, args[0])
				if err != nil {
					return err
				}

				return a.follow(ctx, c, state, wait)
			}

			return a.deploy(ctx, c, args[0], wait, force)
		},
	})
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "wait until the agent runs")
	cmd.Flags().BoolVar(&force, "force", false, "deploy a new revision although nothing has changed")
	cmd.Flags().BoolVar(&rotate, "rotate-key", false, "give the running revision a new key, and deploy nothing else")
	cmd.MarkFlagsMutuallyExclusive("force", "rotate-key")
	return cmd
}

func (a *app) undeployCommand() *cobra.Command {
	var stop bool
	cmd := a.command(action{
		use: "undeploy AGENT", short: "Remove the deployment of an agent, or only stop it",
		long:    "Removes the runtime of an agent with its files and conversations. With --stop, it only stops the runtime: agenthost deploy starts it again.",
		example: "  agenthost undeploy helper\n  agenthost undeploy helper --stop", args: []string{"AGENT"}, complete: agentNames,
		goes: func(ctx context.Context, c *client.Client, args []string) (string, error) {
			if stop {
				return "", nil
			}

			return deploymentGoes(ctx, c, args[0])
		},
		run: func(ctx context.Context, c *client.Client, args []string) error {
			if stop {
				if _, err := c.Deployments.Stop(ctx, args[0]); err != nil {
					return err
				}

				return a.result("The agent %s stops.", args[0])
			}

			if err := c.Deployments.Delete(ctx, args[0]); err != nil {
				return err
			}

			return a.result("The deployment of %s is removed.", args[0])
		},
	})
	cmd.Flags().BoolVar(&stop, "stop", false, "stop the runtime, and retain its files")
	return cmd
}

// deploymentGoes returns what goes with the deployment of an agent.
func deploymentGoes(ctx context.Context, c *client.Client, agent string) (string, error) {
	state, err := c.Deployments.Get(ctx, agent)
	if err != nil || state.State == wire.StateNotDeployed {
		return "", err
	}

	chats, err := count(c.History.List(ctx, client.HistoryFilter{Agent: agent, Source: "hub"}), "conversation", nil)
	if err != nil {
		return "", err
	}

	answers, err := count(c.History.Runs(ctx), "answer", func(r wire.ChatRun) bool { return r.AgentName == agent })
	if err != nil {
		return "", err
	}

	return fmt.Sprintf(`The deployment of %s will be removed, which is %s: its runtime, the files of its working directory, and its
memory of %s, which remain readable. %s in progress will be cancelled. agenthost undeploy %s --stop only stops it.`,
		agent, state.State, chats, answers, agent), nil
}

func (a *app) statusCommand() *cobra.Command {
	return a.command(action{
		use: "status AGENT", short: "Show the deployment of an agent", example: "  agenthost status helper\n  agenthost status helper -o json",
		args: []string{"AGENT"}, complete: agentNames,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			state, err := c.Deployments.Get(ctx, args[0])
			if err != nil {
				return err
			}

			if err := a.printOne(state, deploymentColumns(state)...); err != nil || a.format != "table" || a.quiet {
				return err
			}

			said := state.Error
			for _, condition := range state.Conditions {
				if cause := causeOf(condition); !condition.Status && !strings.Contains(said, cause) {
					said += "\n" + cause
					fmt.Fprintf(a.stdout, "%s: %s\n", condition.Type, printable(condition.Message))
				}
			}

			return nil
		},
	})
}

func (a *app) rollbackCommand() *cobra.Command {
	var revision int64
	var wait, list bool
	cmd := a.command(action{
		use: "rollback AGENT", short: "Deploy a former revision of an agent again",
		long:    "Deploys a former revision of an agent again: the one that was ready before, or that of --revision. --list prints the revisions.",
		example: "  agenthost rollback helper --list\n  agenthost rollback helper --revision 3 --wait", args: []string{"AGENT"}, complete: agentNames,
		run: func(ctx context.Context, c *client.Client, args []string) error {
			if list {
				return printList(a, c.Deployments.Revisions(ctx, args[0]), func(r wire.Revision) []field {
					return []field{
						{"revision", number(r.Revision)},
						{"deployed", r.DeployedAt},
						{"by", r.DeployedBy},
						{"ready", r.Ready},
						{"changes", r.Changes},
					}
				})
			}

			state, err := c.Deployments.Rollback(ctx, args[0], revision)
			if err != nil {
				return err
			}

			return a.follow(ctx, c, state, wait)
		},
	})
	cmd.Flags().Int64Var(&revision, "revision", 0, "`number` of the revision (default the one before)")
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "wait until the agent runs")
	cmd.Flags().BoolVar(&list, "list", false, "list the revisions")
	return cmd
}
