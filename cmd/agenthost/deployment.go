package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/seed93082962/agenthost/hub/client"
	"github.com/seed93082962/agenthost/hub/wire"
)

// awaitDeployment waits until the last revision serves, and calls changed with each state.
func awaitDeployment(ctx context.Context, c *client.Client, state wire.Deployment, changed func(wire.Deployment)) (wire.Deployment, error) {
	for {
		changed(state)
		if state.State == wire.StateRunning && state.Revision == state.ServingRevision {
			return state, nil
		}

		if reason := failureOf(state); reason != "" {
			return state, fmt.Errorf("deploy %s: %s", state.AgentName, reason)
		}

		next, err := c.Deployments.Wait(ctx, state.AgentName, state)
		if err != nil {
			return state, fmt.Errorf("deploy %s: %w", state.AgentName, err)
		}

		state = next
	}
}

// failureOf returns why the last revision will not become ready, or "".
func failureOf(state wire.Deployment) string {
	if state.State == wire.StateFailed || state.State == wire.StateStopped || state.State == wire.StateNotDeployed {
		if state.Error != "" {
			return state.Error
		}

		return "the deployment is " + state.State
	}

	for _, condition := range state.Conditions {
		if condition.Type == "Progressing" && !condition.Status {
			return condition.Message
		}
	}

	return ""
}

// requestOf returns the request that creates an agent as it is.
func requestOf(agent wire.Agent) (wire.AgentRequest, error) {
	var req wire.AgentRequest
	err := convert(agent, &req)
	return req, err
}

// convert sets the fields of a value that have the same names in another one.
func convert(from, to any) error {
	data, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(data, to)
	}

	if err != nil {
		return fmt.Errorf("convert %T: %w", from, err)
	}

	return nil
}
