package deployment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/code"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/rbac"
)

// Bounds of the stored revisions of a deployment. Those that may be started again are stored in any
// case.
const (
	maxRevisions     = 10
	maxRevisionBytes = 4 << 20
)

// Revisions returns the last revisions of an agent's deployment, the last one first. It fails with
// code.AgentNotDeployed if there is none.
func (s *Service) Revisions(ctx context.Context, caller api.Caller, name string) (list api.List[wire.Revision], err error) {
	if err := s.allow(caller, rbac.AdminRead); err != nil {
		return list, err
	}

	if rbac.AdminWrite.Check(caller) != nil {
		if err := s.exists(ctx, caller, name); err != nil { // or the caller has no access
			return list, err
		}
	}

	d, err := readDeployment(ctx, s.store.Read(), caller.TenantID, name)
	if err == nil && d.Desired == desiredAbsent {
		err = errNoDeployment
	}

	if err != nil {
		return list, s.missing(ctx, caller.TenantID, name, err)
	}

	all, err := readRevisions(ctx, s.store.Read(), d)
	for _, r := range all[:min(len(all), maxRevisions)] {
		list.Items = append(list.Items, wire.Revision{
			Revision: r.Number, DeployedAt: wire.Time{Time: r.DeployedAt}, DeployedBy: r.DeployedBy, SpecHash: r.SpecHash, Ready: r.Ready, Changes: r.Changes,
		})
	}

	list.Total = len(list.Items)
	return list, err
}

// Rollback deploys the configuration of an earlier revision again, as a new revision. It fails with
// code.AgentNotDeployed if the agent has no deployment, and with wire.Conflict if the revision is
// not stored, its agent may not use what its deployment settings have, or the agent is disabled.
func (s *Service) Rollback(ctx context.Context, caller api.Caller, name string, in bodies.RollbackRequest) (wire.Deployment, error) {
	if err := s.allow(caller, rbac.AdminWrite); err != nil {
		return wire.Deployment{}, err
	}

	if enabled, err := s.cfg.Catalog.AgentEnabled(ctx, caller, name); err != nil || !enabled {
		if err == nil {
			err = wire.Conflict.New("The agent is disabled: enable it first.")
		}

		return wire.Deployment{}, err
	}

	d, err := s.changeAgent(ctx, caller, name, func(tx *store.Tx) (deployment, error) { return s.rollback(ctx, tx, name, in) })
	if err != nil {
		return wire.Deployment{}, s.missing(ctx, caller.TenantID, name, err)
	}

	return s.status(ctx, caller, d)
}

func (s *Service) rollback(ctx context.Context, tx *store.Tx, name string, in bodies.RollbackRequest) (deployment, error) {
	d, err := lockDeployment(ctx, tx, tx.Caller.TenantID, name)
	if err != nil {
		return d, err
	}

	if d.Desired == desiredAbsent {
		return d, errNoDeployment
	}

	all, err := readRevisions(ctx, tx, d)
	if err != nil {
		return d, err
	}

	i := slices.IndexFunc(all, func(r revision) bool {
		if in.Revision != nil {
			return r.Number == *in.Revision
		}

		return r.Ready && r.Number < d.Revision
	})
	switch {
	case i < 0 && in.Revision != nil:
		return d, wire.Conflict.New(fmt.Sprintf("Revision %d is not stored: GET .../deploy/revisions lists those that are.", *in.Revision))
	case i < 0:
		return d, wire.Conflict.New("No earlier revision was ready.")
	}

	request, err := s.requestOf(all[i])
	if err == nil {
		err = s.permit(request.Deployment)
	}

	if err != nil {
		return d, err
	}

	d.SpecHash = all[i].SpecHash
	tx.Record(actionRollback.Record(d.event(tx.Caller), rollbackDetail{DeploymentKey: d.Key, SpecHash: d.SpecHash, Revision: all[i].Number}))
	return s.revise(ctx, tx, d, request)
}

// revise stores the next revision of a deployment, which runs. A revision that serves continues
// until the next one is ready.
func (s *Service) revise(ctx context.Context, tx *store.Tx, d deployment, request deploy.Request) (deployment, error) {
	if elsewhere, err := onAnotherMachine(ctx, tx, s.cfg.Machine); err != nil || elsewhere {
		if err == nil {
			err = code.DeployerUnavailable.New("Deployments of this database run on another machine: this hub cannot reach them.")
		}

		return d, err
	}

	var changes []string
	if former, err := s.request(ctx, tx, d, d.Revision); err == nil {
		changes = changesOf(former, request)
	}

	if d.Serving == 0 || d.Desired != desiredRunning || d.State == wire.StateFailed {
		d.begin(StateDeploying)
		d.Serving = 0
	}

	d.Desired = desiredRunning
	d.Machine = s.cfg.Machine
	d.Revision++
	d.former = false
	d.Rollout = nil
	d.removeCondition(conditionProgressing) // of the former revision
	d.DeployedAt = tx.Now
	d.DeployedBy = tx.Caller.UserName
	var err error
	if d.Edition == 0 {
		if err = insertDeployment(ctx, tx, d); err == nil {
			err = deleteRevisions(ctx, tx, d)
		}
	} else {
		d, err = updateDesired(ctx, tx, d)
	}

	if err != nil {
		return d, err
	}

	tx.AfterCommit(func() { s.changed(d) })
	return d, s.storeRevision(ctx, tx, d, request, changes)
}

// storeRevision stores the request of the revision of a deployment, and deletes old ones.
func (s *Service) storeRevision(ctx context.Context, q db.Querier, d deployment, request deploy.Request, changes []string) error {
	text, err := json.Marshal(request) // it is sealed below
	if err != nil {
		return fmt.Errorf("seal revision: %w", err)
	}

	r := revision{
		Key: d.Key, TenantID: d.TenantID, Number: d.Revision, SpecHash: d.SpecHash, Changes: changes, Ready: d.Serving == d.Revision,
		DeployedAt: d.DeployedAt, DeployedBy: d.DeployedBy,
	}
	r.Sealed = s.store.Keyring.Seal(text, sealedRequest.Place(revisionID(r.Key, r.Number), r.TenantID))
	if err := insertRevision(ctx, q, r, s.cfg.Catalog.Artifacts(request.CustomTools, request.Skills)); err != nil {
		return err
	}

	return pruneRevisions(ctx, q, d)
}

// repeat stores the request of a revision as the next one.
func (s *Service) repeat(ctx context.Context, q db.Querier, d *deployment, number, next int64) error {
	former, err := readRevision(ctx, q, *d, number)
	if err != nil {
		return err
	}

	request, err := s.requestOf(former)
	if err != nil {
		return err
	}

	d.Revision, d.SpecHash = next, former.SpecHash
	return s.storeRevision(ctx, q, *d, request, nil)
}

// request returns the request of a stored revision.
func (s *Service) request(ctx context.Context, q db.Querier, d deployment, number int64) (deploy.Request, error) {
	r, err := readRevision(ctx, q, d, number)
	if err != nil {
		return deploy.Request{}, err
	}

	return s.requestOf(r)
}

func (s *Service) requestOf(r revision) (deploy.Request, error) {
	var request deploy.Request
	err := s.unseal(&request, r.Sealed, sealedRequest.Place(revisionID(r.Key, r.Number), r.TenantID))
	if err != nil {
		return request, fmt.Errorf("open revision %d of deployment %s: %w", r.Number, r.Key, err)
	}

	request.Tenant = r.TenantID
	return request, nil
}

// changesOf returns the names of the settings, tools and skills that differ in two requests,
// sorted.
func changesOf(former, next deploy.Request) (names []string) {
	before, after := parts(former), parts(next)
	all := map[string]any{}
	maps.Copy(all, before)
	maps.Copy(all, after)
	for name := range all {
		if !reflect.DeepEqual(before[name], after[name]) {
			names = append(names, name)
		}
	}

	slices.Sort(names)
	return names
}

// parts returns the settings of a request by their JSON names, and the hashes of its files.
func parts(r deploy.Request) map[string]any {
	parts := map[string]any{}
	text, err := json.Marshal(r.Config)
	if err = errors.Join(err, json.Unmarshal(text, &parts)); err != nil {
		return nil
	}

	for _, t := range r.CustomTools {
		parts["tool "+t.Name] = t.Hash + t.FileName
	}

	for _, v := range r.Skills {
		parts["skill "+v.Name] = v.Hash
	}

	parts["deployment"] = r.Deployment
	return parts
}

// upgrade completes the rows that an older version created: with the digest of their key, and with
// the request of their revision in a row of its own. It returns the keys of those that it cannot
// open, which remain as they are: they are damaged, or sealed with a key that this hub does not
// have. It logs those that are not in known.
func (s *Service) upgrade(ctx context.Context, known map[string]bool) (closed map[string]bool, err error) {
	err = s.store.Change(ctx, store.Change{}, func(tx *store.Tx) error {
		closed = map[string]bool{}
		all, err := lockFormer(ctx, tx)
		if err != nil {
			return err
		}

		for _, d := range all {
			var former formerContent
			if err := s.unseal(&former, d.Sealed, sealedColumn.Place(d.Key, d.TenantID)); err != nil {
				closed[d.Key] = true
				if !known[d.Key] {
					s.store.Logger.Warn("open deployment of an older version", "deployment", d.Key, "err", err)
				}

				continue
			}

			if err := s.upgradeOne(ctx, tx, d, former); err != nil {
				return err
			}
		}

		return nil
	})
	return closed, err
}

// formerContent is the sealed part of a row that an older version created.
type formerContent struct {
	content
	Request deploy.Request `json:"request"`
}

func (s *Service) upgradeOne(ctx context.Context, tx *store.Tx, d deployment, former formerContent) error {
	indexed := d.KeyDigest != nil
	if err := s.seal(&d, former.content); err != nil {
		return err
	}

	if d.State == wire.StateRunning || d.State == StateUnhealthy {
		d.Serving = d.Revision
	}

	d.former = false
	if former.Request.Key != "" && d.Desired != desiredAbsent {
		former.Request.Env = nil
		if err := s.storeRevision(ctx, tx, d, former.Request, nil); err != nil {
			return err
		}
	}

	d, err := updateDesired(ctx, tx, d)
	if err != nil || indexed {
		return err
	}

	return insertReader(ctx, tx, d, anyone)
}
