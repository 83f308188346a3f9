package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

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
			return state, &deployFailure{state.AgentName, reason}
		}

		next, err := c.Deployments.Wait(ctx, state.AgentName, state)
		if err != nil {
			return state, fmt.Errorf("deploy %s: %w", state.AgentName, err)
		}

		state = next
	}
}

// deployFailure is the end of a revision that did not become ready.
type deployFailure struct{ agent, reason string }

func (e *deployFailure) Error() string { return "deploy " + e.agent + ": " + e.reason }

// failureOf returns why the last revision will not become ready, or "".
func failureOf(state wire.Deployment) string {
	if state.State == wire.StateFailed || state.State == wire.StateStopped || state.State == wire.StateNotDeployed {
		return cmp.Or(state.Error, "the deployment is "+state.State)
	}

	if waits := progressing(state); !waits.Status {
		return causeOf(waits)
	}

	return ""
}

// progressing returns the condition of the last revision, which is empty if it has none yet.
func progressing(state wire.Deployment) wire.Condition {
	for _, condition := range state.Conditions {
		if condition.Type == "Progressing" {
			return condition
		}
	}

	return wire.Condition{Status: true}
}

// causeOf returns the message of a condition without the words with which the hub says that the
// revision is not ready: they differ while it is tried again.
func causeOf(condition wire.Condition) string {
	if before, cause, found := strings.Cut(condition.Message, "ready: "); found && strings.HasPrefix(before, "The revision ") {
		return cause
	}

	return condition.Message
}

// rollout prints the states of a deployment: a line for each change, and each reason once.
type rollout struct {
	*app
	last    string // line
	reasons []string
}

func (r *rollout) print(now wire.Deployment) {
	line, reason := now.State, now.Error
	if now.ServingRevision != 0 && now.Revision != now.ServingRevision {
		line = fmt.Sprintf("revision %d starts, revision %d serves", now.Revision, now.ServingRevision)
		reason = causeOf(progressing(now))
	}

	if reason != "" && !slices.Contains(r.reasons, reason) {
		r.reasons = append(r.reasons, reason)
		line += ": " + oneLine(reason)
	} else if line == r.last {
		return
	}

	r.note("%s  %s", time.Now().Format(time.TimeOnly), line)
	r.last, _, _ = strings.Cut(line, ": ")
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
