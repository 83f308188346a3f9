package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/seed93082962/agenthost/hub/wire"
)

const demoAgent = "demo"

// loopback returns an error for an address that other machines can reach, because every user of
// this machine's account may use the hub without a password.
func loopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return usage("--addr %q is not of the form 127.0.0.1:8080", addr)
	}

	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usage("--addr %s is not a loopback address: agenthost hub serves other machines", addr)
	}

	return nil
}

// withFreePort adds to the error of an address that is taken one that is free.
func withFreePort(err error, addr string) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}

	host, _, _ := net.SplitHostPort(addr) // it was checked
	free, failed := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if failed != nil {
		return err
	}

	defer func() { _ = free.Close() }()
	return fmt.Errorf("another program listens on %s: add --addr %s, which is free", addr, free.Addr())
}

// deployDemo deploys the demo agent, and starts the agents of the last time.
func (d *dev) deployDemo(ctx context.Context) error {
	provider, model, err := d.provider(ctx)
	if err != nil {
		return err
	}

	model = cmp.Or(d.model, model)
	agent, err := d.client.Agents.Get(ctx, demoAgent)
	switch {
	case errors.Is(err, wire.NotFound):
		_, err = d.client.Agents.Create(ctx, wire.AgentRequest{
			Name: demoAgent, Title: "Demo", Description: "The agent of agenthost dev.", ProviderID: provider, Model: model,
			SystemPrompt: "You are a helpful assistant.", Tools: []string{"Read", "Glob", "Grep", "TodoWrite"},
			AllowedTools: []string{"Read", "Glob", "Grep", "TodoWrite"},
		})
	case err == nil && (agent.ProviderID != provider || agent.Model != model):
		err = d.moveDemo(ctx, agent, provider, model)
	}

	if err != nil {
		return err
	}

	if err := d.startAgents(ctx); err != nil {
		return err
	}

	if err := d.deployAgent(ctx, demoAgent); err != nil {
		return err
	}

	fmt.Fprintf(d.stdout, "The agent %s is running with the model %s. Chat with it in the console, or in another terminal:\n\n  %s chat %s -m \"Hello!\"\n\nCtrl-C stops the hub and its agents.\n", demoAgent, model, d.name, demoAgent)
	return nil
}

// moveDemo changes the provider and the model of the demo agent, and nothing that the user changed.
func (d *dev) moveDemo(ctx context.Context, agent wire.Agent, provider, model string) error {
	update, err := requestOf(agent)
	if err != nil {
		return err
	}

	update.ProviderID, update.Model = provider, model
	_, err = d.client.Agents.Update(ctx, agent.Name, agent.Version, update)
	return err
}

// startAgents starts the agents that the last process has stopped.
func (d *dev) startAgents(ctx context.Context) error {
	var started []string
	defer func() {
		if len(started) > 0 {
			fmt.Fprintf(d.stdout, "Started again, as they were: %s\n", strings.Join(started, ", "))
		}
	}()
	for agent, err := range d.client.Agents.List(ctx, "") {
		if err != nil {
			return err
		}

		state, err := d.client.Deployments.Get(ctx, agent.Name)
		if err == nil && state.State == wire.StateStopped {
			started = append(started, agent.Name)
			_, err = d.client.Deployments.Start(ctx, agent.Name)
		}

		if err != nil {
			return fmt.Errorf("start %s: %w", agent.Name, err)
		}
	}

	return nil
}

// deployAgent deploys an agent and waits until its last revision serves.
func (d *dev) deployAgent(ctx context.Context, agent string) error {
	fmt.Fprintf(d.stdout, "Starting the agent %s.\n", agent)
	state, err := d.client.Deployments.Deploy(ctx, agent, false)
	if err != nil {
		return fmt.Errorf("deploy %s: %w", agent, err)
	}

	_, err = awaitDeployment(ctx, d.client, state, func(wire.Deployment) {})
	return err
}
