package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// The audit actions of agents. A detail lists every field that an entry of the action can contain,
// and never a secret. Prompts are recorded by their hash and length.
var (
	actionCreateAgent = auditlog.Define[agentDetail]("agent.create")
	actionUpdateAgent = auditlog.Define[agentUpdateDetail]("agent.update")
	actionDeleteAgent = auditlog.Define[agentDetail]("agent.delete")
	actionImportAgent = auditlog.Define[agentImportDetail]("agent.import")
	actionBind        = auditlog.Define[bindDetail]("agent.bind")
)

type (
	agentDetail struct {
		Provider       string   `json:"provider,omitempty"` // its name, which older entries lack
		ProviderID     string   `json:"providerId"`
		Model          string   `json:"model"`
		PermissionMode string   `json:"permissionMode"`
		Sandbox        []string `json:"sandbox,omitempty"`
		Approvers      string   `json:"approvers,omitempty"` // which older entries lack
		Settings       []string `json:"settings,omitempty"`
		Enabled        bool     `json:"enabled"`
		IsDefault      bool     `json:"isDefault"`
		Tools          []string `json:"tools"`
		Skills         []string `json:"skills"`
		MCPs           []string `json:"mcps"`
		Knowledge      []string `json:"knowledge"`
	}
	agentImportDetail struct {
		Provider   string   `json:"provider,omitempty"`
		ProviderID string   `json:"providerId"`
		Model      string   `json:"model"`
		Sandbox    []string `json:"sandbox,omitempty"`
		Approvers  string   `json:"approvers,omitempty"` // which older entries lack
		Settings   []string `json:"settings,omitempty"`
		Replaced   bool     `json:"replaced"` // an agent of the same name
	}
	agentUpdateDetail struct {
		Title           *auditlog.Change[string]   `json:"title,omitempty"`
		TitleEN         *auditlog.Change[string]   `json:"titleEn,omitempty"`
		Description     *auditlog.Change[string]   `json:"description,omitempty"`
		DescriptionEN   *auditlog.Change[string]   `json:"descriptionEn,omitempty"`
		Icon            *auditlog.Change[string]   `json:"icon,omitempty"`
		Enabled         *auditlog.Change[bool]     `json:"enabled,omitempty"`
		IsDefault       *auditlog.Change[bool]     `json:"isDefault,omitempty"`
		Provider        *auditlog.Change[string]   `json:"provider,omitempty"`
		ProviderID      *auditlog.Change[string]   `json:"providerId,omitempty"`
		Model           *auditlog.Change[string]   `json:"model,omitempty"`
		SystemPrompt    *auditlog.Change[string]   `json:"systemPrompt,omitempty"` // hash and length
		MaxTurns        *auditlog.Change[int]      `json:"maxTurns,omitempty"`
		PermissionMode  *auditlog.Change[string]   `json:"permissionMode,omitempty"`
		Sandbox         *auditlog.Change[[]string] `json:"sandbox,omitempty"`
		AllowedTools    *auditlog.Change[[]string] `json:"allowedTools,omitempty"`
		DisallowedTools *auditlog.Change[[]string] `json:"disallowedTools,omitempty"`
		Subagents       *auditlog.Change[[]string] `json:"subagents,omitempty"` // names with hashes
		SettingSources  *auditlog.Change[[]string] `json:"settingSources,omitempty"`
		Approvers       *auditlog.Change[string]   `json:"approvers,omitempty"`
		Access          *auditlog.Change[[]string] `json:"access,omitempty"`
		Settings        *auditlog.Change[[]string] `json:"settings,omitempty"` // all others, such as "temperature: 0.5"
	}
	bindDetail struct {
		Kind  string                     `json:"kind"` // tool, skill, mcp or knowledge
		Items *auditlog.Change[[]string] `json:"items"`
	}
)

// event returns the event of a change of the agent.
func (a *Agent) event(caller api.Caller) auditlog.Event {
	return caller.Event().WithTarget("agent", a.ID, a.Name)
}

// detail returns the fields of an agent whose provider has the name.
func (a *Agent) detail(provider string) agentDetail {
	d := recorded[agentDetail](*a)
	d.Provider = provider
	d.Sandbox, d.Settings = settings.Recorded(settings.Lines(a.Sandbox)), settings.Recorded(a.settingLines())
	d.Knowledge = refNames(a.Knowledge)
	return d
}

// updatedAgent returns the changed fields without the bindings.
func updatedAgent(from, to Agent) agentUpdateDetail {
	d := changed[agentUpdateDetail](from, to)
	d.SystemPrompt = auditlog.Diff(settings.Summary(from.SystemPrompt), settings.Summary(to.SystemPrompt))
	d.AllowedTools = settings.Changed(from.AllowedTools, to.AllowedTools)
	d.DisallowedTools = settings.Changed(from.DisallowedTools, to.DisallowedTools)
	d.Sandbox = settings.Changed(settings.Lines(from.Sandbox), settings.Lines(to.Sandbox))
	d.Subagents = auditlog.Diff(subagentSummaries(from.Subagents), subagentSummaries(to.Subagents))
	d.Access = settings.Changed(settings.Lines(from.Access), settings.Lines(to.Access))
	d.Settings = settings.Changed(from.settingLines(), to.settingLines())
	return d
}

// providerName returns the name of a provider in an entry of the audit log.
func (s *Service) providerName(ctx context.Context, tx *store.Tx, id string) (string, error) {
	p, _, err := s.cfg.Providers.Get(ctx, tx, tx.Caller.TenantID, id)
	if errors.Is(err, wire.NotFound) { // a built-in one of another version
		return id, nil
	}

	return p.Name, err
}

// subagentSummaries identifies subagents without their prompts.
func subagentSummaries(all map[string]agent.Subagent) []string {
	list := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, _ := json.Marshal(all[name])
		list = append(list, name+" "+settings.Summary(string(text)))
	}

	return list
}

// settingLines returns the settings of the runtime and of the deployment that have no field in a
// detail.
func (a *Agent) settingLines() []string {
	rest := a.withoutColumns()
	rest.OutputSchema = nil
	lines := settings.Lines(settings.Replace(rest, func(_, value string) string { return settings.Summary(value) }))
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "id: " || line == "model: " })
	if a.OutputSchema != nil {
		lines = append(lines, "outputSchema: "+settings.Summary(string(a.OutputSchema)))
	}

	for _, line := range settings.Lines(a.Deployment) {
		lines = append(lines, "deployment."+line)
	}

	slices.Sort(lines)
	return lines
}
