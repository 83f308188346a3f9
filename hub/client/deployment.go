package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// States of a [Deployment].
const (
	NotDeployed = "not_deployed"
	Deploying   = "deploying"
	Starting    = "starting"
	Running     = "running"
	Unhealthy   = "unhealthy"
	Stopping    = "stopping"
	Stopped     = "stopped"
	Failed      = "failed"
	Deleting    = "deleting"
)

// Deployments controls the runtimes of agents. A change returns when it is recorded: Get returns
// how far it is.
type Deployments struct{ c *Client }

func deployPath(agent string) string { return "/api/v1/admin/agents/" + segment(agent) + "/deploy" }

// Get returns the state of an agent.
func (d Deployments) Get(ctx context.Context, agent string) (Deployment, error) {
	return get[Deployment](ctx, d.c, deployPath(agent), nil)
}

// Deploy deploys an agent, as a new revision if its configuration has changed or with force.
func (d Deployments) Deploy(ctx context.Context, agent string, force bool) (Deployment, error) {
	return send[Deployment](ctx, d.c, http.MethodPost, deployPath(agent), map[string]bool{"force": force})
}

// pollInterval is the time between two requests of [Deployments.Wait].
const pollInterval = 100 * time.Millisecond

// Wait returns the state of an agent when it is no longer the last one that the caller has seen.
func (d Deployments) Wait(ctx context.Context, agent string, last Deployment) (Deployment, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		now, err := d.Get(ctx, agent)
		if err != nil || now.differs(last) {
			return now, err
		}

		select {
		case <-ctx.Done():
			return now, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (d Deployment) differs(last Deployment) bool {
	return d.State != last.State || d.Revision != last.Revision || d.ServingRevision != last.ServingRevision || d.Error != last.Error ||
		!slices.Equal(d.Conditions, last.Conditions)
}

// Delete removes the runtime of an agent with its files.
func (d Deployments) Delete(ctx context.Context, agent string) error {
	return done(ctx, d.c, http.MethodDelete, deployPath(agent), nil)
}

// Stop stops the runtime of an agent.
func (d Deployments) Stop(ctx context.Context, agent string) (Deployment, error) {
	return send[Deployment](ctx, d.c, http.MethodPost, deployPath(agent)+"/stop", nil)
}

// Start starts the runtime of an agent that was stopped or has failed.
func (d Deployments) Start(ctx context.Context, agent string) (Deployment, error) {
	return send[Deployment](ctx, d.c, http.MethodPost, deployPath(agent)+"/start", nil)
}

// RotateKey replaces the key of the runtime of an agent.
func (d Deployments) RotateKey(ctx context.Context, agent string) (Deployment, error) {
	return send[Deployment](ctx, d.c, http.MethodPost, deployPath(agent)+"/rotate-key", nil)
}

// Rollback deploys a former revision again, or with 0 the one that was ready before.
func (d Deployments) Rollback(ctx context.Context, agent string, revision int64) (Deployment, error) {
	body := map[string]int64{}
	if revision != 0 {
		body["revision"] = revision
	}

	return send[Deployment](ctx, d.c, http.MethodPost, deployPath(agent)+"/rollback", body)
}

// Revisions yields the revisions of an agent, the newest first.
func (d Deployments) Revisions(ctx context.Context, agent string) iter.Seq2[Revision, error] {
	return whole[Revision](ctx, d.c, deployPath(agent)+"/revisions")
}

// Logs returns the last lines of the log of a runtime, or with 0 a number that the hub chooses.
func (d Deployments) Logs(ctx context.Context, agent string, lines int) ([]string, error) {
	query := url.Values{}
	if lines > 0 {
		query.Set("tail", strconv.Itoa(lines))
	}

	body, err := get[struct {
		Lines []string `json:"lines"`
	}](ctx, d.c, deployPath(agent)+"/logs", query)
	return body.Lines, err
}

// Condition explains the state of a [Deployment].
type Condition struct {
	// applied, ready, Progressing, Routed, McpServersReady or restored.
	Type   string `json:"type"`
	Status bool   `json:"status"`
	// The error code of Routed, if it is false.
	Code string `json:"code,omitempty"`
	// Why the status is false, or what a revision waits for.
	Message   string    `json:"message,omitempty"`
	ChangedAt time.Time `json:"changedAt"`
}

// Deployment is the state of an agent on its runtime.
type Deployment struct {
	// The id of the agent in the runtime.
	AgentName     string `json:"agentName"`
	DeploymentKey string `json:"deploymentKey"`
	Desired       string `json:"desired"`
	State         string `json:"state"`
	Health        string `json:"health"`
	// Where the runtime listens. Absent if it does not run.
	RuntimeURL string `json:"runtimeUrl,omitempty"`
	// The key of the runtime.
	APIKey    string `json:"apiKey,omitempty"`
	PublicURL string `json:"publicUrl"`
	// The kind of the deployer, such as process.
	Backend string `json:"backend"`
	// The revision that was deployed last.
	Revision int64 `json:"revision,omitempty"`
	// The revision that new runs go to. Absent if none is ready.
	ServingRevision int64 `json:"servingRevision,omitempty"`
	// A hash of the deployed configuration. It cannot be compared between deployments.
	SpecHash string `json:"specHash,omitempty"`
	// The configuration of the agent differs from the deployed one.
	ConfigDrift  bool        `json:"configDrift"`
	RestartCount int64       `json:"restartCount"`
	Conditions   []Condition `json:"conditions"`
	StartedAt    time.Time   `json:"startedAt,omitzero"`
	DeployedAt   time.Time   `json:"deployedAt,omitzero"`
	DeployedBy   string      `json:"deployedBy,omitempty"`
	// Why the agent does not run, with the last lines of the runtime's log.
	Error string `json:"error,omitempty"`
}

// Revision is one deploy of an agent.
type Revision struct {
	Revision   int64     `json:"revision"`
	DeployedAt time.Time `json:"deployedAt"`
	DeployedBy string    `json:"deployedBy"`
	// A hash of the deployed configuration. It cannot be compared between deployments.
	SpecHash string `json:"specHash"`
	// The agent has been ready.
	Ready bool `json:"ready"`
	// What the revision before it has otherwise: settings such as systemPrompt, and tool NAME
	// and skill NAME.
	Changes []string `json:"changes"`
}
