package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
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
		ProviderID     string   `json:"providerId"`
		Model          string   `json:"model"`
		PermissionMode string   `json:"permissionMode"`
		Sandbox        []string `json:"sandbox,omitempty"`
		Enabled        bool     `json:"enabled"`
		IsDefault      bool     `json:"isDefault"`
		Tools          []string `json:"tools"`
		Skills         []string `json:"skills"`
		MCPs           []string `json:"mcps"`
		Knowledge      []string `json:"knowledge"`
	}
	agentImportDetail struct {
		ProviderID string   `json:"providerId"`
		Model      string   `json:"model"`
		Sandbox    []string `json:"sandbox,omitempty"`
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
	}
	bindDetail struct {
		Kind  string                     `json:"kind"` // tool, skill, mcp or knowledge
		Items *auditlog.Change[[]string] `json:"items"`
	}
)

// event returns the event of a change of the agent.
func (a *Agent) event(caller api.Caller) auditlog.Event {
	return target(caller.Event(), "agent", a.ID, a.Name)
}

// target returns e with its target.
func target(e auditlog.Event, kind, id, name string) auditlog.Event {
	e.TargetType, e.TargetID, e.TargetName = kind, id, name
	return e
}

func (a *Agent) detail() agentDetail {
	return agentDetail{
		ProviderID: a.ProviderID, Model: a.Model, PermissionMode: a.PermissionMode, Sandbox: recorded(sandboxLines(a.Sandbox)),
		Enabled: a.Enabled, IsDefault: a.IsDefault, Tools: a.Tools, Skills: a.Skills, MCPs: a.MCPs, Knowledge: refNames(a.Knowledge),
	}
}

// updatedAgent returns the changed fields without the bindings.
func updatedAgent(from, to Agent) agentUpdateDetail {
	return agentUpdateDetail{
		Title: auditlog.Diff(from.Title, to.Title), TitleEN: auditlog.Diff(from.TitleEN, to.TitleEN),
		Description: auditlog.Diff(from.Description, to.Description), DescriptionEN: auditlog.Diff(from.DescriptionEN, to.DescriptionEN),
		Icon: auditlog.Diff(from.Icon, to.Icon), Enabled: auditlog.Diff(from.Enabled, to.Enabled), IsDefault: auditlog.Diff(from.IsDefault, to.IsDefault),
		ProviderID: auditlog.Diff(from.ProviderID, to.ProviderID), Model: auditlog.Diff(from.Model, to.Model),
		SystemPrompt: auditlog.Diff(summary(from.SystemPrompt), summary(to.SystemPrompt)), MaxTurns: auditlog.Diff(from.MaxTurns, to.MaxTurns),
		PermissionMode: auditlog.Diff(from.PermissionMode, to.PermissionMode), AllowedTools: changedList(from.AllowedTools, to.AllowedTools),
		DisallowedTools: changedList(from.DisallowedTools, to.DisallowedTools),
		Sandbox:         changedList(sandboxLines(from.Sandbox), sandboxLines(to.Sandbox)),
		Subagents:       auditlog.Diff(subagentSummaries(from.Subagents), subagentSummaries(to.Subagents)),
		SettingSources:  auditlog.Diff(from.SettingSources, to.SettingSources),
	}
}

// changedList is changed for lists that may exceed the size of an audit entry.
func changedList(from, to []string) *auditlog.Change[[]string] {
	change := auditlog.Diff(from, to)
	if change != nil {
		change.From, change.To = recorded(from), recorded(to)
	}
	return change
}

// maxRecorded bounds the bytes of a list in an audit entry, encoded as JSON, which needs up to 6
// bytes for a character. An entry has six such lists.
const maxRecorded = 24 << 10

// recorded returns the first elements of a list, and a summary of those that an audit entry has no
// space for.
func recorded(list []string) []string {
	size := 0
	for i, element := range list {
		text, _ := json.Marshal(element)
		if size += len(text); size > maxRecorded {
			return append(slices.Clone(list[:i]), fmt.Sprintf("and %d more: %s", len(list)-i, summary(strings.Join(list[i:], "\n"))))
		}
	}
	return list
}

// summary identifies a text without its content.
func summary(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("sha256:%s (%d characters)", hex.EncodeToString(sum[:8]), utf8.RuneCountInString(text))
}

// subagentSummaries identifies subagents without their prompts.
func subagentSummaries(all map[string]agent.Subagent) []string {
	list := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, _ := json.Marshal(all[name])
		list = append(list, name+" "+summary(string(text)))
	}
	return list
}

// sandboxLines returns the fields of a sandbox for the audit log, such as "read: /srv".
func sandboxLines(s agent.Sandbox) []string {
	lines := []string{}
	add := func(name string, values ...string) {
		for _, value := range values {
			if value != "" {
				lines = append(lines, name+": "+value)
			}
		}
	}
	add("mode", s.Mode)
	add("network", s.Network)
	add("read", s.Read...)
	add("write", s.Write...)
	add("domains", s.Domains...)
	return lines
}
