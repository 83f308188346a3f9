package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Limits of the fields, in characters or elements.
const (
	maxTitle       = 128
	maxDescription = 2000
	maxIcon        = 1000
	maxPrompt      = 200_000
	maxModel       = 200
	maxTurns       = 10_000
	maxList        = 200
	maxElement     = 500
	maxSubagents   = 50
)

// AgentInput is the request for an agent. Settings of the runtime have its defaults. Of an existing
// agent, the name is "" or its name.
type AgentInput struct {
	wire.AgentRequest

	Access Access `json:"access"`

	foreign

	faults error // of a body
}

// foreign are the settings of a configuration file that an agent of the hub refers to, or does not
// have.
type foreign struct {
	SystemPromptFile any `json:"systemPromptFile"`
	Provider         any `json:"provider"`
	MCPServers       any `json:"mcpServers"`
	Datasets         any `json:"datasets"`
	CustomTools      any `json:"customTools"`
	SkillArchives    any `json:"skillArchives"`
	Hub              any `json:"hub"`
}

// UnmarshalJSON decodes a form. Its faults are those of all fields.
func (in *AgentInput) UnmarshalJSON(data []byte) error {
	type plain AgentInput
	*in = AgentInput{}
	in.faults = agent.DecodeForm(data, (*plain)(in))
	return settings.NotObject(in.faults)
}

// checked returns the agent. It adds the faults by field. name is that of the agent that the input
// replaces, or "".
func (in AgentInput) checked(name string, fields api.Fields) Agent {
	settings.AddFaults(fields, in.faults)
	a := Agent{Agent: wire.Agent{
		IsDefault: in.IsDefault, Enabled: in.Enabled == nil || *in.Enabled, Access: wire.AgentAccess(in.Access), Approvers: in.Approvers, Deployment: in.Deployment,
		MaxOutputTokens: in.MaxOutputTokens, ContextWindow: in.ContextWindow, Temperature: in.Temperature, Thinking: in.Thinking,
		CommandEnv: in.CommandEnv, Limits: in.Limits, OutputSchema: in.OutputSchema, MaxTurns: new(agent.Agent).TurnLimit(), PermissionMode: cmp.Or(in.PermissionMode, "default"),
	}}
	a.Name = checkedName(fields, name, in.Name, "agent", checkAgentName)
	a.Title = cmp.Or(fields.Line("title", in.Title, 0, maxTitle), a.Name)
	a.TitleEN = fields.Line("titleEn", in.TitleEN, 0, maxTitle)
	a.Description = fields.Text("description", in.Description, 0, maxDescription)
	a.DescriptionEN = fields.Text("descriptionEn", in.DescriptionEN, 0, maxDescription)
	a.Icon = fields.Line("icon", in.Icon, 0, maxIcon)
	a.ProviderID = fields.Line("providerId", in.ProviderID, 1, 100)
	a.Access.Users = checkList(fields, "access.users", in.Access.Users)
	a.Access.Groups = checkList(fields, "access.groups", in.Access.Groups)
	a.Tools = checkNames(fields, "tools", in.Tools)
	a.Skills = checkNames(fields, "skills", in.Skills)
	a.MCPs = checkNames(fields, "mcps", in.MCPs)
	a.Knowledge = checkKnowledge(fields, "knowledge", in.Knowledge)
	deployment, _ := errors.AsType[agent.Faults](a.Deployment.Validate())
	for _, f := range deployment {
		fields.Add("deployment."+f.Key, f.Message)
	}

	if in.Approvers != "" && !slices.Contains(approvers, in.Approvers) {
		fields.Add("approvers", "must be one of "+strings.Join(approvers, ", "))
	}

	a.Model = fields.Line("model", in.Model, 1, maxModel)
	a.SystemPrompt = checkPrompt(fields, "systemPrompt", in.SystemPrompt)
	if in.MaxTurns != nil {
		a.MaxTurns = *in.MaxTurns
	}

	if a.MaxTurns < 1 || a.MaxTurns > maxTurns {
		fields.Add("maxTurns", fmt.Sprintf("must be from 1 to %d", maxTurns))
	}

	a.AllowedTools = checkList(fields, "allowedTools", in.AllowedTools)
	a.DisallowedTools = append([]string{}, checkList(fields, "disallowedTools", in.DisallowedTools)...)
	sources := agent.Agent{SettingSources: in.SettingSources}
	a.SettingSources = checkList(fields, "settingSources", sources.SkillSources())
	a.ExtraUserSkillDirs = checkList(fields, "extraUserSkillDirs", in.ExtraUserSkillDirs)
	for i, dir := range a.ExtraUserSkillDirs {
		if !filepath.IsAbs(dir) {
			fields.Add(index("extraUserSkillDirs", i), "must be an absolute path")
		}
	}

	a.Sandbox = checkSandbox(fields, in.Sandbox)
	a.Subagents = checkSubagents(fields, in.Subagents)
	in.foreign.check(fields)
	a.checkRuntime(fields)
	return a
}

// checkRuntime checks the settings of the runtime by its rules.
func (a *Agent) checkRuntime(fields api.Fields) {
	definition := a.forRuntime()
	faults, _ := errors.AsType[agent.Faults](definition.Validate())
	for _, f := range faults {
		if f.Key == "id" {
			f.Key = "name"
		}

		fields.Add(f.Key, f.Message)
	}
}

// check adds what to use in place of each setting.
func (f foreign) check(fields api.Fields) {
	for key, row := range map[string]struct {
		value  any
		remedy string
	}{
		"systemPromptFile": {f.SystemPromptFile, "is a file of another machine: send the text in systemPrompt"},
		"provider":         {f.Provider, "is a provider of the hub: send its id in providerId"},
		"mcpServers":       {f.MCPServers, "are MCP servers of the hub: send their names in mcps"},
		"datasets":         {f.Datasets, "are knowledge sets of the hub: send their names in knowledge"},
		"customTools":      {f.CustomTools, "are tools of the hub: send their names in tools"},
		"skillArchives":    {f.SkillArchives, "are skills of the hub: send their names in skills"},
		"hub":              {f.Hub, "is part of a file: send its fields"},
	} {
		if row.value != nil {
			fields.Add(key, row.remedy)
		}
	}
}

// checkedName returns the name of an agent or a component, a noun. name is that of the one that is
// replaced, or "" for a new one, whose name check checks.
func checkedName(fields api.Fields, name, given, noun string, check func(api.Fields, string, string)) string {
	switch {
	case name == "":
		check(fields, "name", given)
		return given
	case given != "" && given != name:
		fields.Add("name", "cannot be changed: create another "+noun)
	}

	return name
}

// applyTexts sets the name, the title and the description of a component.
func applyTexts(fields api.Fields, v *wire.Component, name, title, description string, check func(api.Fields, string, string)) {
	v.Name = checkedName(fields, v.Name, name, "one", check)
	v.Title = fields.Line("title", title, 0, maxTitle)
	v.Description = fields.Text("description", description, 0, maxDescription)
}

// checkAgentName checks the name of a new agent by the rule of the runtime. A path of the API has
// the name manifest.
func checkAgentName(fields api.Fields, field, name string) {
	checkName(fields, field, name)
	if name == "manifest" {
		fields.Add(field, "must not be manifest: choose another name")
	}
}

// checkName checks a name by the runtime's rule for the ids of agents.
func checkName(fields api.Fields, field, name string) {
	probe := agent.Agent{ID: name, Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolDemo}}
	if name == "" {
		fields.Add(field, "must not be empty")
	} else if probe.Validate() != nil {
		fields.Add(field, "must be lower-case letters and digits with single hyphens between them, at most 63 characters")
	}
}

// checkPrompt checks a text for a model, which may have any characters but U+0000.
func checkPrompt(fields api.Fields, field, text string) string {
	switch {
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		fields.Add(field, "must be valid UTF-8 without U+0000")
	case utf8.RuneCountInString(text) > maxPrompt:
		fields.Add(field, fmt.Sprintf("must have at most %d characters", maxPrompt))
	}

	return text
}

// checkList checks a list of names or patterns, and returns a copy. It keeps the difference between
// nil and empty.
func checkList(fields api.Fields, field string, list []string) []string {
	if len(list) > maxList {
		fields.Add(field, fmt.Sprintf("must have at most %d elements", maxList))
		return nil
	}

	list = slices.Clone(list)
	for i, v := range list {
		list[i] = fields.Line(index(field, i), v, 1, maxElement)
	}

	return list
}

// checkNames checks the names of a set, and returns them. It returns nil for too many.
func checkNames(fields api.Fields, field string, names []string) []string {
	seen := map[string]bool{}
	checked := checkList(fields, field, names)
	for i, name := range checked {
		if name != names[i] || seen[name] {
			fields.Add(index(field, i), quote(name)+" must not occur twice, and not have surrounding white space")
		}

		seen[name] = true
	}

	if checked == nil {
		return nil
	}

	return names
}

// checkKnowledge checks references to knowledge sets, and returns them. It returns nil for too
// many.
func checkKnowledge(fields api.Fields, field string, refs []wire.KnowledgeRef) []wire.KnowledgeRef {
	names := make([]string, 0, maxList+1)
	for i := range min(len(refs), maxList+1) {
		names = append(names, refs[i].Name)
		fields.Line(index(field, i)+".description", refs[i].Description, 0, maxDescription)
	}

	if refs == nil || checkNames(fields, field, names) == nil {
		return nil
	}

	return refs
}

// checkSubagents checks the sizes of subagents; the runtime's own rules check their content.
func checkSubagents(fields api.Fields, all map[string]agent.Subagent) map[string]agent.Subagent {
	if len(all) > maxSubagents {
		fields.Add("subagents", fmt.Sprintf("must have at most %d elements", maxSubagents))
		return nil
	}

	checked := make(map[string]agent.Subagent, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		sub, at := all[name], "subagents."+name
		checkName(fields, at, name)
		sub.Description = fields.Text(at+".description", sub.Description, 1, maxDescription)
		sub.Prompt = checkPrompt(fields, at+".prompt", sub.Prompt)
		sub.Model = fields.Line(at+".model", sub.Model, 0, maxModel)
		sub.Tools = checkList(fields, at+".tools", sub.Tools)
		sub.DisallowedTools = checkList(fields, at+".disallowedTools", sub.DisallowedTools)
		sub.MCPServers = checkList(fields, at+".mcpServers", sub.MCPServers)
		sub.Skills = checkList(fields, at+".skills", sub.Skills)
		if sub.MaxTurns > maxTurns {
			fields.Add(at+".maxTurns", fmt.Sprintf("must be from 1 to %d", maxTurns))
		}

		checked[name] = sub
	}

	return checked
}

// checkSandbox checks the characters of a sandbox; the runtime's own rules check the rest. It
// returns a copy with nil for empty lists.
func checkSandbox(fields api.Fields, s agent.Sandbox) agent.Sandbox {
	checked := func(name string, list []string) []string {
		if len(list) == 0 {
			return nil
		}

		list = slices.Clone(list)
		for i := range min(len(list), maxList) {
			list[i] = fields.Line(index("sandbox."+name, i), list[i], 0, maxCommand)
		}

		return list
	}
	s.Read = checked("read", s.Read)
	s.Write = checked("write", s.Write)
	s.Domains = checked("domains", s.Domains)
	return s
}

// index returns the name of an element of a field, such as tools[0].
func index(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

func quote(name string) string { return strconv.Quote(name) }
