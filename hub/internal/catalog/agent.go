package catalog

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Agent is an agent in a snapshot or in the database.
type Agent struct {
	wire.Agent

	shownHash string // ContentHash for members, of an agent in a snapshot
}

// forRuntime returns the agent as the runtime has it, with a provider and MCP servers that only
// exist.
func (a *Agent) forRuntime() agent.Agent {
	r := a.withoutColumns()
	r.ID, r.Name, r.Description = a.Name, a.Title, a.Description
	r.Model = a.Model
	r.Provider = agent.Provider{Protocol: agent.ProtocolDemo}
	r.SystemPrompt = a.SystemPrompt
	r.MaxTurns = a.MaxTurns
	r.PermissionMode = a.PermissionMode
	r.AllowedTools, r.DisallowedTools, r.SettingSources = a.AllowedTools, a.DisallowedTools, a.SettingSources
	r.Sandbox = a.Sandbox
	if len(a.Subagents) > 0 {
		r.Subagents = a.Subagents
	}

	if len(a.MCPs) > 0 {
		r.MCPServers = map[string]agent.MCPServer{}
	}

	for _, name := range a.MCPs {
		r.MCPServers[name] = agent.MCPServer{Transport: agentvalue.TransportStdio, Command: "c"}
	}

	return r
}

// ApproversOwner is the value of approvers with which the owner of a chat approves its calls. The
// others are roles.
const ApproversOwner = "owner"

var approvers = []string{ApproversOwner, string(rbac.Maintainer), string(rbac.Admin)}

var errNoAgent = wire.NotFound.New("There is no such agent.")

// CreateAgent creates an agent. It fails with wire.NameTaken.
func (s *Service) CreateAgent(ctx context.Context, caller api.Caller, in AgentInput) (Agent, error) {
	fields := api.Fields{}
	input := in.checked("", fields)
	var a Agent
	err := s.change(ctx, caller, func(tx *store.Tx) error {
		a = input
		if err := s.insert(ctx, tx, &a, maps.Clone(fields)); err != nil {
			return typed(err, in.faults)
		}

		provider, err := s.providerName(ctx, tx, a.ProviderID)
		tx.Record(actionCreateAgent.Record(a.event(caller), a.detail(provider)))
		return err
	})
	return a, err
}

// typed returns invalid fields as the error of a form, see [settings.Err], and other errors
// unchanged.
func typed(err, decoded error) error {
	if fields, ok := errors.AsType[api.Fields](err); ok {
		return settings.Err(fields, decoded)
	}

	return err
}

// insert stores a new agent with its bindings. It fails with the fields and the faults that it
// adds.
func (s *Service) insert(ctx context.Context, tx *store.Tx, a *Agent, fields api.Fields) error {
	a.ID, a.Version = ids.New(), 1
	a.CreatedAt, a.UpdatedAt = wire.Time{Time: tx.Now}, wire.Time{Time: tx.Now}
	before := Agent{}
	a.keepBindings(before)
	if a.Access.IsZero() {
		a.Access = everyone()
	}

	a.Approvers = cmp.Or(a.Approvers, ApproversOwner)

	if err := s.checkReferences(ctx, tx, before, a, fields); err != nil {
		return err
	}

	taken, err := exists(ctx, tx, "agents", tx.Caller.TenantID, a.Name)
	if err != nil {
		return err
	}

	if taken {
		return wire.NameTaken.New("There is an agent " + a.Name + ": choose another name.")
	}

	if err := a.clearDefault(ctx, tx); err != nil {
		return err
	}

	if err := insertRow(ctx, tx, "agents", a.written()); err != nil {
		return err
	}

	return s.writeBindings(ctx, tx, before, a)
}

// writeBindings stores the bindings of an agent that was stored in place of before, checks the
// quota of the tenant, and sets the content hash.
func (s *Service) writeBindings(ctx context.Context, tx *store.Tx, before Agent, a *Agent) error {
	if err := replaceBindings(ctx, tx, before, *a); err != nil {
		return err
	}

	if agentSize(a) > agentSize(&before) {
		if err := s.CheckRoom(ctx, tx.Tx, tx.Caller.TenantID); err != nil {
			return err
		}
	}

	return a.hash(ctx, s, tx)
}

// UpdateAgent replaces the configuration of an agent. Bindings that the input does not contain are
// unchanged. expected is the version that the caller has read, or nil. The error is wire.NotFound,
// or wire.PreconditionFailed for another version.
func (s *Service) UpdateAgent(ctx context.Context, caller api.Caller, name string, expected *int64, in AgentInput) (Agent, error) {
	fields := api.Fields{}
	input := in.checked(name, fields)
	a, err := s.edit(ctx, caller, name, expected, fields, func(Agent) Agent { return input })
	return a, typed(err, in.faults)
}

// edit stores what do returns for an agent. Without a difference, nothing is stored. It fails with
// the fields and further faults.
func (s *Service) edit(ctx context.Context, caller api.Caller, name string, expected *int64, fields api.Fields,
	do func(before Agent) Agent) (Agent, error) {
	var a Agent
	err := s.change(ctx, caller, func(tx *store.Tx) error {
		before, err := readAgent(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}

		if err := store.CheckVersion(expected, before.Version); err != nil {
			return err
		}

		a = do(before)
		if err := s.replace(ctx, tx, before, &a, maps.Clone(fields)); err != nil {
			return err
		}

		if a.Version == before.Version {
			return tx.Unchanged()
		}

		detail := updatedAgent(before, a)
		if detail.ProviderID != nil {
			former, err := s.providerName(ctx, tx, before.ProviderID)
			if err != nil {
				return err
			}

			now, err := s.providerName(ctx, tx, a.ProviderID)
			if err != nil {
				return err
			}

			detail.Provider = auditlog.Diff(former, now)
		}

		if detail != (agentUpdateDetail{}) {
			tx.Record(actionUpdateAgent.Record(a.event(caller), detail))
		}

		recordBindings(tx, before, a)
		return nil
	})
	return a, err
}

// replace stores a in place of before. It changes nothing if they are equal.
func (s *Service) replace(ctx context.Context, tx *store.Tx, before Agent, a *Agent, fields api.Fields) error {
	a.ID, a.Version = before.ID, before.Version
	a.CreatedAt, a.UpdatedAt = before.CreatedAt, before.UpdatedAt
	a.keepBindings(before)
	if a.Access.IsZero() {
		a.Access = before.Access
	}

	a.Approvers = cmp.Or(a.Approvers, before.Approvers)

	if err := s.checkReferences(ctx, tx, before, a, fields); err != nil {
		return err
	}

	if reflect.DeepEqual(before, *a) {
		return a.hash(ctx, s, tx)
	}

	if err := a.clearDefault(ctx, tx); err != nil {
		return err
	}

	a.Version, a.UpdatedAt = a.Version+1, wire.Time{Time: tx.Now}
	if err := updateRow(ctx, tx, "agents", a.written()); err != nil {
		return err
	}

	if a.Approvers != before.Approvers {
		if err := s.cfg.ApproversChanged(ctx, tx, a.Name, a.Approvers); err != nil {
			return err
		}
	}

	return s.writeBindings(ctx, tx, before, a)
}

// clearDefault makes a the only default agent, if it is one.
func (a *Agent) clearDefault(ctx context.Context, tx *store.Tx) error {
	if !a.IsDefault {
		return nil
	}

	former, err := clearDefault(ctx, tx, tx.Caller.TenantID, a.ID, tx.Now)
	for _, f := range former {
		tx.Record(actionUpdateAgent.Record(f.event(tx.Caller), agentUpdateDetail{IsDefault: auditlog.Diff(true, false)}))
	}

	return err
}

// DeleteAgent deletes an agent. expected is the version that the caller has read, or nil. It fails
// with wire.NotFound, with wire.PreconditionFailed for another version, with code.AgentDeployed,
// and with wire.Conflict if scenes use it.
func (s *Service) DeleteAgent(ctx context.Context, caller api.Caller, name string, expected *int64) error {
	return s.change(ctx, caller, func(tx *store.Tx) error {
		if err := s.LockAgent(ctx, tx.Tx, caller.TenantID, name); err != nil { // a deploy locks it too
			return err
		}

		a, err := readAgent(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}

		if err := store.CheckVersion(expected, a.Version); err != nil {
			return err
		}

		deployed, err := s.cfg.Deployed(ctx, tx.Tx, caller.TenantID, name)
		if err != nil {
			return err
		}

		if deployed {
			return code.AgentDeployed
		}

		scenes, err := scenesOfAgent(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}

		if len(scenes) > 0 {
			return &wire.Error{
				Code: wire.Conflict, Message: "Scenes use this agent: delete the scenes in data.scenes first.", Data: wire.ErrorData{Scenes: scenes},
			}
		}

		provider, err := s.providerName(ctx, tx, a.ProviderID)
		if err != nil {
			return err
		}

		tx.Record(actionDeleteAgent.Record(a.event(caller), a.detail(provider)))
		if err := deleteRow(ctx, tx, "agents", a.ID); err != nil {
			return err
		}

		return s.cfg.Deleted(ctx, tx, name)
	})
}

// checkReferences reserves the provider of a, and fails with the fields and whatever a refers to
// that does not exist. What the agent before referred to exists.
func (s *Service) checkReferences(ctx context.Context, tx *store.Tx, before Agent, a *Agent, fields api.Fields) error {
	switch err := s.cfg.Providers.Reserve(ctx, tx.Tx, tx.Caller.TenantID, a.ProviderID); {
	case errors.Is(err, wire.NotFound):
		fields.Add("providerId", quote(a.ProviderID)+" does not exist")
	case err != nil:
		return err
	}

	for _, b := range bindings {
		known := refNames(b.refs(&before))
		for i, name := range refNames(b.refs(a)) {
			if slices.Contains(known, name) || b.kind == kindTool && s.Tools.builtinNamed(name) != nil {
				continue
			}

			found, err := exists(ctx, tx, b.table, tx.Caller.TenantID, name)
			if err != nil {
				return err
			}

			if !found {
				fields.Add(index(b.table, i), quote(name)+" does not exist")
			}
		}
	}

	definition := a.forRuntime()
	settings.AddFaults(fields, definition.Check())
	return fields.Err()
}
