package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/wire"
)

// Deployments controls the runtimes of agents, and reads their working directories. A change
// returns when it is recorded: Get returns how far it is.
type Deployments struct{ c *Client }

func deployPath(agent string) string { return "/api/v1/admin/agents/" + segment(agent) + "/deploy" }

// Get returns the state of an agent.
func (d Deployments) Get(ctx context.Context, agent string) (wire.Deployment, error) {
	return get[wire.Deployment](ctx, d.c, deployPath(agent), nil)
}

// Deploy deploys an agent, as a new revision if its configuration has changed or with force.
func (d Deployments) Deploy(ctx context.Context, agent string, force bool) (wire.Deployment, error) {
	return send[wire.Deployment](ctx, d.c, http.MethodPost, deployPath(agent), bodies.DeployRequest{Force: force})
}

// pollInterval is the time between two requests of [Deployments.Wait].
const pollInterval = 100 * time.Millisecond

// Wait returns the state of an agent when it is no longer the last one that the caller has seen.
func (d Deployments) Wait(ctx context.Context, agent string, last wire.Deployment) (wire.Deployment, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		now, err := d.Get(ctx, agent)
		if err != nil || differ(now, last) {
			return now, err
		}

		select {
		case <-ctx.Done():
			return now, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func differ(d, last wire.Deployment) bool {
	return d.State != last.State || d.Revision != last.Revision || d.ServingRevision != last.ServingRevision || d.Error != last.Error ||
		!slices.Equal(d.Conditions, last.Conditions)
}

// Delete removes the runtime of an agent with its files.
func (d Deployments) Delete(ctx context.Context, agent string) error {
	return done(ctx, d.c, http.MethodDelete, deployPath(agent), nil)
}

// Stop stops the runtime of an agent.
func (d Deployments) Stop(ctx context.Context, agent string) (wire.Deployment, error) {
	return send[wire.Deployment](ctx, d.c, http.MethodPost, deployPath(agent)+"/stop", nil)
}

// Start starts the runtime of an agent that was stopped or has failed.
func (d Deployments) Start(ctx context.Context, agent string) (wire.Deployment, error) {
	return send[wire.Deployment](ctx, d.c, http.MethodPost, deployPath(agent)+"/start", nil)
}

// RotateKey replaces the key of the runtime of an agent.
func (d Deployments) RotateKey(ctx context.Context, agent string) (wire.Deployment, error) {
	return send[wire.Deployment](ctx, d.c, http.MethodPost, deployPath(agent)+"/rotate-key", nil)
}

// Rollback deploys a former revision again, or with 0 the one that was ready before.
func (d Deployments) Rollback(ctx context.Context, agent string, revision int64) (wire.Deployment, error) {
	body := bodies.RollbackRequest{}
	if revision != 0 {
		body.Revision = &revision
	}

	return send[wire.Deployment](ctx, d.c, http.MethodPost, deployPath(agent)+"/rollback", body)
}

// Revisions yields the revisions of an agent, the newest first.
func (d Deployments) Revisions(ctx context.Context, agent string) iter.Seq2[wire.Revision, error] {
	return whole[wire.Revision](ctx, d.c, deployPath(agent)+"/revisions")
}

// Logs returns the last lines of the log of a runtime, or with 0 a number that the hub chooses.
func (d Deployments) Logs(ctx context.Context, agent string, lines int) ([]string, error) {
	query := url.Values{}
	if lines > 0 {
		query.Set("tail", strconv.Itoa(lines))
	}

	log, err := get[bodies.Log](ctx, d.c, deployPath(agent)+"/logs", query)
	return log.Lines, err
}
