package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/bodies"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
)

// componentKind is a kind of components, and of the targets in the audit log.
type componentKind string

const (
	kindTool      componentKind = "tool"
	kindSkill     componentKind = "skill"
	kindMCP       componentKind = "mcp"
	kindKnowledge componentKind = "knowledge"
	kindScene     componentKind = "scene"
)

// binding is what agents can be bound to. Its table has the name of the field of an agent.
type binding struct {
	kind   componentKind
	table  string
	names  func(*Agent) *[]string // the field of the agent; nil for Agent.Knowledge
	digest string                 // of a row c, in SQL
}

var bindings = []binding{
	{kind: kindTool, table: "tools", names: func(a *Agent) *[]string { return &a.Tools }, digest: `c.hash || '/' || c.file_name`},
	{kind: kindSkill, table: "skills", names: func(a *Agent) *[]string { return &a.Skills }, digest: `c.hash`},
	{kind: kindMCP, table: "mcps", names: func(a *Agent) *[]string { return &a.MCPs }, digest: `c.digest`},
	{kind: kindKnowledge, table: "knowledge", digest: `c.digest`},
}

// refs returns the bindings of the agent, or nil if its field is nil.
func (b binding) refs(a *Agent) []wire.KnowledgeRef {
	if b.names == nil {
		return a.Knowledge
	}

	if *b.names(a) == nil {
		return nil
	}

	refs := make([]wire.KnowledgeRef, len(*b.names(a)))
	for i, name := range *b.names(a) {
		refs[i].Name = name
	}

	return refs
}

// set binds the agent to a copy of refs.
func (b binding) set(a *Agent, refs []wire.KnowledgeRef) {
	if b.names == nil {
		a.Knowledge = append([]wire.KnowledgeRef{}, refs...)
	} else {
		*b.names(a) = refNames(refs)
	}
}

func refNames(refs []wire.KnowledgeRef) []string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		names[i] = ref.Name
	}

	return names
}

// keepBindings binds the agent to what before is bound to, of the kinds whose field is nil.
func (a *Agent) keepBindings(before Agent) {
	for _, b := range bindings {
		refs := b.refs(a)
		if refs == nil {
			refs = b.refs(&before)
		}

		b.set(a, refs)
	}
}

// bindAgent replaces the bindings of one kind of an agent. A [bodies.BindingsRequest] decodes as
// one of knowledge sets without descriptions.
func (s *Service) bindAgent(ctx context.Context, caller api.Caller, name string, b binding, expected *int64, in bodies.KnowledgeBindingsRequest) (Agent, error) {
	fields := api.Fields{}
	if in.Items == nil {
		fields.Add("items", "must be a list")
	}

	checkKnowledge(fields, "items", in.Items)
	if b.kind != kindKnowledge && slices.ContainsFunc(in.Items, func(r wire.KnowledgeRef) bool { return r.Description != "" }) {
		fields.Add("items", "must not have descriptions: only knowledge has them")
	}

	if err := fields.Err(); err != nil {
		return Agent{}, err
	}

	a, err := s.edit(ctx, caller, name, expected, api.Fields{}, func(a Agent) Agent {
		b.set(&a, in.Items)
		return a
	})
	invalid, _ := errors.AsType[api.Fields](err)
	for field, reason := range invalid { // the elements of the field are those of items
		if rest, ok := strings.CutPrefix(field, b.table+"["); ok {
			delete(invalid, field)
			invalid["items["+rest] = reason
		}
	}

	return a, err
}

// recordBindings records which components were added to an agent and removed from it.
func recordBindings(tx *store.Tx, before, after Agent) {
	for _, b := range bindings {
		if items := auditlog.Diff(refSummaries(b.refs(&before)), refSummaries(b.refs(&after))); items != nil {
			tx.Record(actionBind.Record(after.event(tx.Caller), bindDetail{Kind: string(b.kind), Items: items}))
		}
	}
}

// refSummaries identifies bound components by their names and the hashes of their descriptions.
func refSummaries(refs []wire.KnowledgeRef) []string {
	all := refNames(refs)
	for i, ref := range refs {
		if ref.Description != "" {
			all[i] += " " + settings.Summary(ref.Description)
		}
	}

	return all
}

// bindingRoutes returns the routes of the bindings of an agent.
func (s *Service) bindingRoutes() []api.Route {
	var routes []api.Route
	for _, b := range bindings {
		path := "/api/v1/admin/agents/:name/" + b.table
		get := api.Result(http.StatusOK, func(r *http.Request) (bindingList, error) {
			a, err := s.Agent(r.Context(), api.CallerOf(r), r.PathValue("name"))
			return bindingList{a: a, binding: b}, err
		})
		put := replaceOf(func(ctx context.Context, caller api.Caller, name string, expected *int64, in bodies.KnowledgeBindingsRequest) (bindingList, error) {
			a, err := s.bindAgent(ctx, caller, name, b, expected, in)
			return bindingList{a: a, binding: b}, err
		})
		routes = append(routes, adminRoute(http.MethodGet, path, get), adminRoute(http.MethodPut, path, put))
	}

	return routes
}

// bindingList is the response with the bindings of an agent: objects for knowledge, names for the
// others.
type bindingList struct {
	binding
	a Agent
}

// CurrentVersion returns the version of the agent.
func (l bindingList) CurrentVersion() int64 { return l.a.Version }

// MarshalJSON returns the list.
func (l bindingList) MarshalJSON() ([]byte, error) {
	refs := l.refs(&l.a)
	if l.kind == kindKnowledge {
		return json.Marshal(api.List[wire.KnowledgeRef]{Items: refs, Total: len(refs)})
	}

	return json.Marshal(api.List[string]{Items: refNames(refs), Total: len(refs)})
}
