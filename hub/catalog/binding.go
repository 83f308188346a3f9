package catalog

import (
	"context"
	"slices"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/db"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// kind is what an agent can be bound to.
type kind string

const (
	kindTool      kind = "tool"
	kindSkill     kind = "skill"
	kindMCP       kind = "mcp"
	kindKnowledge kind = "knowledge"
)

// binding is the set of components of one kind that an agent uses.
type binding struct {
	kind  kind
	field string // of the agent
	refs  []KnowledgeRef
}

// bindings returns the bindings of all kinds.
func (a *Agent) bindings() []binding {
	return []binding{
		{kindTool, "tools", refs(a.Tools)}, {kindSkill, "skills", refs(a.Skills)},
		{kindMCP, "mcps", refs(a.MCPs)}, {kindKnowledge, "knowledge", a.Knowledge},
	}
}

// names returns the names of the bound components of a kind.
func (a *Agent) names(k kind) []string {
	for _, b := range a.bindings() {
		if b.kind == k {
			return refNames(b.refs)
		}
	}
	return nil
}

func refs(names []string) []KnowledgeRef {
	all := make([]KnowledgeRef, len(names))
	for i, name := range names {
		all[i].Name = name
	}
	return all
}

func refNames(refs []KnowledgeRef) []string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = ref.Name
	}
	return names
}

// Bindings is what an agent uses of one kind, the complete set. Only knowledge has descriptions.
type Bindings struct {
	Items []KnowledgeRef `json:"items"`
}

// bound returns the bindings of one kind of an agent.
func (s *Service) bound(ctx context.Context, caller api.Caller, name string, k kind) (Agent, []KnowledgeRef, error) {
	a, err := s.Agent(ctx, caller, name)
	if err != nil {
		return Agent{}, nil, err
	}
	refs := a.refs(k)
	return a, refs, nil
}

func (a *Agent) refs(k kind) []KnowledgeRef {
	all := a.bindings()
	return all[slices.IndexFunc(all, func(b binding) bool { return b.kind == k })].refs
}

// bindAgent replaces the bindings of one kind of an agent.
func (s *Service) bindAgent(ctx context.Context, caller api.Caller, name string, k kind, expected *int64, in Bindings) (Agent, error) {
	fields := api.Fields{}
	if in.Items == nil {
		fields.Add("items", "must be a list")
	}
	checkKnowledge(fields, "items", in.Items)
	if k != kindKnowledge && slices.ContainsFunc(in.Items, func(r KnowledgeRef) bool { return r.Description != "" }) {
		fields.Add("items", "must not have descriptions: only knowledge has them")
	}
	if err := fields.Err(); err != nil {
		return Agent{}, err
	}
	var a Agent
	err := s.change(ctx, caller, func(tx *store.Tx) error {
		before, err := readAgent(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		if err := store.CheckVersion(expected, before.Version); err != nil {
			return err
		}
		a = before
		if err := s.replace(ctx, tx, before, &a, bindingInput(k, in.Items)); err != nil {
			return itemFields(err, before.field(k))
		}
		if a.Version == before.Version {
			return store.ErrUnchanged
		}
		recordBindings(tx, before, a)
		return nil
	})
	return a, err
}

// field returns the name of the field with the bindings of a kind.
func (a *Agent) field(k kind) string {
	all := a.bindings()
	return all[slices.IndexFunc(all, func(b binding) bool { return b.kind == k })].field
}

// itemFields renames the elements of a field to elements of items.
func itemFields(err error, field string) error {
	fields, ok := err.(api.Fields) //nolint:errorlint // made by replace, unwrapped
	if !ok {
		return err
	}
	renamed := api.Fields{}
	for name, reason := range fields {
		if len(name) > len(field) && name[:len(field)+1] == field+"[" {
			name = "items" + name[len(field):]
		}
		renamed[name] = reason
	}
	return renamed
}

// bindingInput returns the input that changes the bindings of one kind.
func bindingInput(k kind, items []KnowledgeRef) (in AgentInput) {
	switch k {
	case kindTool:
		in.Tools = refNames(items)
	case kindSkill:
		in.Skills = refNames(items)
	case kindMCP:
		in.MCPs = refNames(items)
	case kindKnowledge:
		in.Knowledge = items
	}
	return in
}

// recordBindings records which components were added to an agent and removed from it.
func recordBindings(tx *store.Tx, before, after Agent) {
	for i, b := range after.bindings() {
		was := before.bindings()[i].refs
		if slices.Equal(was, b.refs) {
			continue
		}
		detail := bindDetail{Kind: string(b.kind), Items: &auditlog.Change[[]string]{From: refSummaries(was), To: refSummaries(b.refs)}}
		tx.Record(actionBind.Record(after.event(tx.Caller), detail))
	}
}

// refSummaries identifies bound components by their names and the hashes of their descriptions.
func refSummaries(refs []KnowledgeRef) []string {
	all := refNames(refs)
	for i, ref := range refs {
		if ref.Description != "" {
			all[i] += " " + summary(ref.Description)
		}
	}
	return all
}

// exists reports whether a component exists.
func (s *Service) exists(ctx context.Context, q db.Querier, tenantID string, k kind, name string) (bool, error) {
	switch k {
	case kindTool:
		if slices.ContainsFunc(agent.BuiltinTools(), func(t agent.BuiltinTool) bool { return t.Name == name }) {
			return true, nil
		}
		return toolExists(ctx, q, tenantID, name)
	case kindSkill:
		return skillExists(ctx, q, tenantID, name)
	case kindMCP:
		return mcpExists(ctx, q, tenantID, name)
	default:
		return knowledgeExists(ctx, q, tenantID, name)
	}
}
