package catalog

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"reflect"
	"slices"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Agent is the configuration of an agent. It contains no secret. The fields that the runtime
// defines are those of [agent.Agent], with its rules.
type Agent struct {
	ID            string `json:"id"`
	Name          string `json:"name"` // the id of the agent in the runtime, unique in the tenant
	Title         string `json:"title"`
	TitleEN       string `json:"titleEn,omitempty"`
	Description   string `json:"description"`
	DescriptionEN string `json:"descriptionEn,omitempty"`
	Icon          string `json:"icon,omitempty"`
	Enabled       bool   `json:"enabled"`
	IsDefault     bool   `json:"isDefault"` // of at most one agent of the tenant

	ProviderID      string   `json:"providerId"`
	Model           string   `json:"model"`
	SystemPrompt    string   `json:"systemPrompt"`
	MaxTurns        int      `json:"maxTurns"`
	PermissionMode  string   `json:"permissionMode"`
	AllowedTools    []string `json:"allowedTools"` // nil (null): every tool; empty: none
	DisallowedTools []string `json:"disallowedTools"`

	Sandbox agent.Sandbox `json:"sandbox,omitzero"` // empty fields have the defaults of the runtime

	Tools     []string       `json:"tools"`
	Skills    []string       `json:"skills"`
	MCPs      []string       `json:"mcps"`
	Knowledge []KnowledgeRef `json:"knowledge"`

	Subagents      map[string]agent.Subagent `json:"subagents"`
	SettingSources []string                  `json:"settingSources"`

	// PromptsOmitted reports that SystemPrompt and the prompts of Subagents are "" in a list, because
	// they have more than 16 KiB together.
	PromptsOmitted bool `json:"promptsOmitted,omitempty"`

	ContentHash string   `json:"contentHash"`
	Version     int64    `json:"version"`
	CreatedAt   api.Time `json:"createdAt"`
	UpdatedAt   api.Time `json:"updatedAt"`
}

// KnowledgeRef is a knowledge set that an agent uses. Description replaces that of the knowledge
// set for this agent, unless it is empty.
type KnowledgeRef struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// UnmarshalJSON also accepts a string, which is the name.
func (k *KnowledgeRef) UnmarshalJSON(data []byte) error {
	*k = KnowledgeRef{}
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &k.Name)
	}
	type plain KnowledgeRef
	return json.Unmarshal(data, (*plain)(k))
}

// Agents returns the agents of the tenant by name, including disabled ones. The caller must not
// modify their slices and maps.
func (s *Service) Agents(ctx context.Context, caller api.Caller, page api.Page) (api.List[Agent], error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return api.List[Agent]{}, err
	}
	all, err := s.snapshot(ctx, caller.TenantID)
	if err != nil {
		return api.List[Agent]{}, err
	}
	return all.page(page, func(*Agent) bool { return true }), nil
}

// Agent returns an agent, which may be disabled, or api.NotFound.
func (s *Service) Agent(ctx context.Context, caller api.Caller, name string) (Agent, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return Agent{}, err
	}
	all, err := s.snapshot(ctx, caller.TenantID)
	if err != nil {
		return Agent{}, err
	}
	if a := all.agent(name); a != nil {
		return *a, nil
	}
	return Agent{}, errNoAgent
}

var errNoAgent = api.NotFound.New("There is no such agent.")

// CreateAgent creates an agent. It fails with api.NameTaken.
func (s *Service) CreateAgent(ctx context.Context, caller api.Caller, in AgentInput) (Agent, error) {
	a, err := in.validate("")
	if err != nil {
		return Agent{}, err
	}
	err = s.change(ctx, caller, func(tx *store.Tx) error {
		if err := s.insert(ctx, tx, &a, in); err != nil {
			return err
		}
		tx.Record(actionCreateAgent.Record(a.event(caller), a.detail()))
		return nil
	})
	return a, err
}

// insert stores a new agent with its bindings.
func (s *Service) insert(ctx context.Context, tx *store.Tx, a *Agent, in AgentInput) error {
	tenantID, before := tx.Caller.TenantID, Agent{}
	a.ID, a.Version = ids.New(), 1
	a.CreatedAt, a.UpdatedAt = api.Time(tx.Now), api.Time(tx.Now)
	a.bind(before, in)
	if err := s.checkReferences(ctx, tx, before, a); err != nil {
		return err
	}
	taken, err := readAgent(ctx, tx, tenantID, a.Name)
	if err == nil {
		return api.NameTaken.New("There is an agent " + taken.Name + ": choose another name.")
	}
	if !errors.Is(err, api.NotFound) {
		return err
	}
	if err := checkRoom(ctx, tx); err != nil {
		return err
	}
	if err := a.clearDefault(ctx, tx); err != nil {
		return err
	}
	if err := insertAgent(ctx, tx, tenantID, *a); err != nil {
		return err
	}
	if err := replaceBindings(ctx, tx, tenantID, before, *a); err != nil {
		return err
	}
	if err := checkBytes(ctx, tx, 0, agentSize(a)); err != nil {
		return err
	}
	return a.hash(ctx, tx, tenantID)
}

// UpdateAgent replaces the configuration of an agent. Bindings that the input does not contain are
// unchanged. expected is the version that the caller has read, or nil. The error is api.NotFound,
// or api.PreconditionFailed for another version.
func (s *Service) UpdateAgent(ctx context.Context, caller api.Caller, name string, expected *int64, in AgentInput) (Agent, error) {
	input, err := in.validate(name)
	if err != nil {
		return Agent{}, err
	}
	var a Agent
	err = s.change(ctx, caller, func(tx *store.Tx) error {
		before, err := readAgent(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		if err := store.CheckVersion(expected, before.Version); err != nil {
			return err
		}
		a = input
		if err := s.replace(ctx, tx, before, &a, in); err != nil {
			return err
		}
		if a.Version == before.Version {
			return store.ErrUnchanged
		}
		recordUpdate(tx, before, a)
		return nil
	})
	return a, err
}

// replace stores a in place of before, with the bindings of the input. It changes nothing if they
// are equal.
func (s *Service) replace(ctx context.Context, tx *store.Tx, before Agent, a *Agent, in AgentInput) error {
	a.ID = before.ID
	a.Version = before.Version
	a.CreatedAt = before.CreatedAt
	a.UpdatedAt = before.UpdatedAt
	a.bind(before, in)
	if err := s.checkReferences(ctx, tx, before, a); err != nil {
		return err
	}
	if !reflect.DeepEqual(before, *a) {
		if err := a.clearDefault(ctx, tx); err != nil {
			return err
		}
		a.Version, a.UpdatedAt = a.Version+1, api.Time(tx.Now)
		if err := updateAgent(ctx, tx, tx.Caller.TenantID, *a); err != nil {
			return err
		}
		if err := replaceBindings(ctx, tx, tx.Caller.TenantID, before, *a); err != nil {
			return err
		}
		if err := checkBytes(ctx, tx, agentSize(&before), agentSize(a)); err != nil {
			return err
		}
	}
	return a.hash(ctx, tx, tx.Caller.TenantID)
}

// recordUpdate records the changes between two versions of an agent.
func recordUpdate(tx *store.Tx, before, after Agent) {
	if detail, changed := updatedAgent(before, after); changed {
		tx.Record(actionUpdateAgent.Record(after.event(tx.Caller), detail))
	}
	recordBindings(tx, before, after)
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

// DeleteAgent deletes an agent. It fails with api.NotFound, with api.AgentDeployed, and with
// api.Conflict if scenes use it.
func (s *Service) DeleteAgent(ctx context.Context, caller api.Caller, name string) error {
	return s.change(ctx, caller, func(tx *store.Tx) error {
		if err := s.LockAgent(ctx, tx.Tx, caller.TenantID, name); err != nil { // a deploy locks it too
			return err
		}
		a, err := readAgent(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		deployed, err := s.cfg.Deployed(ctx, tx.Tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		if deployed {
			return api.AgentDeployed
		}
		scenes, err := scenesOfAgent(ctx, tx, caller.TenantID, name)
		if err != nil {
			return err
		}
		if len(scenes) > 0 {
			return &api.Error{
				Code: api.Conflict, Message: "Scenes use this agent: delete the scenes in data.scenes first.", Data: map[string][]string{"scenes": scenes},
			}
		}
		if err := deleteAgent(ctx, tx, caller.TenantID, a.ID); err != nil {
			return err
		}
		tx.Record(actionDeleteAgent.Record(a.event(caller), a.detail()))
		return nil
	})
}

// AgentsOfProvider returns the names of the agents that use a provider, which must not be deleted
// then.
func (s *Service) AgentsOfProvider(ctx context.Context, tx *sql.Tx, tenantID, providerID string) ([]string, error) {
	return agentsOfProvider(ctx, tx, tenantID, providerID)
}

// bind sets the bindings of a to those of the input, or to those before for the kinds that the
// input does not have.
func (a *Agent) bind(before Agent, in AgentInput) {
	a.Tools, a.Skills, a.MCPs = or(in.Tools, before.Tools), or(in.Skills, before.Skills), or(in.MCPs, before.MCPs)
	a.Knowledge = or(in.Knowledge, before.Knowledge)
}

// or returns a copy of list, or of other if list is nil. The result is not nil.
func or[T any](list, other []T) []T {
	if list == nil {
		list = other
	}
	return append([]T{}, list...)
}

// checkReferences reserves the provider of a, and returns api.Fields for whatever a refers to that
// does not exist. What the agent before referred to exists.
func (s *Service) checkReferences(ctx context.Context, tx *store.Tx, before Agent, a *Agent) error {
	fields := api.Fields{}
	switch err := s.cfg.Providers.Reserve(ctx, tx.Tx, tx.Caller.TenantID, a.ProviderID); {
	case errors.Is(err, api.NotFound):
		fields.Add("providerId", quote(a.ProviderID)+" does not exist")
	case err != nil:
		return err
	}
	for _, b := range a.bindings() {
		known := before.names(b.kind)
		for i, ref := range b.refs {
			if slices.Contains(known, ref.Name) {
				continue
			}
			ok, err := s.exists(ctx, tx, tx.Caller.TenantID, b.kind, ref.Name)
			if err != nil {
				return err
			}
			if !ok {
				fields.Add(index(b.field, i), quote(ref.Name)+" does not exist")
			}
		}
	}
	definition := a.definition()
	addFaults(fields, definition.Check())
	return fields.Err()
}

// definition returns the part of the agent that the runtime defines. Its provider and MCP servers
// only exist.
func (a *Agent) definition() *agent.Agent {
	d := &agent.Agent{
		ID: a.Name, Name: a.Title, Description: a.Description, Model: a.Model, Provider: agent.Provider{Protocol: agent.ProtocolDemo},
		SystemPrompt: a.SystemPrompt, MaxTurns: a.MaxTurns, PermissionMode: a.PermissionMode,
		AllowedTools: a.AllowedTools, DisallowedTools: a.DisallowedTools, SettingSources: a.SettingSources, Sandbox: a.Sandbox,
	}
	if len(a.Subagents) > 0 {
		d.Subagents = a.Subagents
	}
	if len(a.MCPs) > 0 {
		d.MCPServers = map[string]agent.MCPServer{}
		for _, name := range a.MCPs {
			d.MCPServers[name] = agent.MCPServer{}
		}
	}
	return d
}
