package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed93082962/agenthost/hub/api"
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

// AgentInput is the configuration of an agent. Missing fields have their defaults: the title is the
// name, the agent is enabled, and settings of the runtime have its defaults.
type AgentInput struct {
	Name          string `json:"name"` // of an existing agent, "" or its name
	Title         string `json:"title"`
	TitleEN       string `json:"titleEn"`
	Description   string `json:"description"`
	DescriptionEN string `json:"descriptionEn"`
	Icon          string `json:"icon"`
	Enabled       *bool  `json:"enabled"`
	IsDefault     bool   `json:"isDefault"`

	ProviderID      string   `json:"providerId"`
	Model           string   `json:"model"`
	SystemPrompt    string   `json:"systemPrompt"`
	MaxTurns        *int     `json:"maxTurns"`
	PermissionMode  string   `json:"permissionMode"`
	AllowedTools    []string `json:"allowedTools"`
	DisallowedTools []string `json:"disallowedTools"`

	Sandbox agent.Sandbox `json:"sandbox"`

	Tools     []string       `json:"tools"` // nil: unchanged
	Skills    []string       `json:"skills"`
	MCPs      []string       `json:"mcps"`
	Knowledge []KnowledgeRef `json:"knowledge"`

	Subagents      map[string]agent.Subagent `json:"subagents"`
	SettingSources []string                  `json:"settingSources"`
}

// validate returns the agent without ids and times, or the faults by field. name is that of the
// agent that the input replaces, or "".
func (in AgentInput) validate(name string) (Agent, error) {
	fields := api.Fields{}
	a := Agent{
		Name:            checkedName(fields, name, in.Name, "agent", checkAgentName),
		Title:           fields.Line("title", in.Title, 0, maxTitle),
		TitleEN:         fields.Line("titleEn", in.TitleEN, 0, maxTitle),
		Description:     fields.Text("description", in.Description, 0, maxDescription),
		DescriptionEN:   fields.Text("descriptionEn", in.DescriptionEN, 0, maxDescription),
		Icon:            fields.Line("icon", in.Icon, 0, maxIcon),
		Enabled:         in.Enabled == nil || *in.Enabled,
		IsDefault:       in.IsDefault,
		ProviderID:      fields.Line("providerId", in.ProviderID, 1, 100),
		Model:           fields.Line("model", in.Model, 1, maxModel),
		SystemPrompt:    checkPrompt(fields, "systemPrompt", in.SystemPrompt),
		PermissionMode:  in.PermissionMode,
		AllowedTools:    checkList(fields, "allowedTools", in.AllowedTools),
		DisallowedTools: append([]string{}, checkList(fields, "disallowedTools", in.DisallowedTools)...),
		SettingSources:  checkList(fields, "settingSources", in.SettingSources),
		Sandbox:         checkSandbox(fields, in.Sandbox),
		Subagents:       checkSubagents(fields, in.Subagents),
	}
	a.setDefaults(in)
	if a.MaxTurns < 1 || a.MaxTurns > maxTurns {
		fields.Add("maxTurns", fmt.Sprintf("must be from 1 to %d", maxTurns))
	}
	checkNames(fields, "tools", in.Tools)
	checkNames(fields, "skills", in.Skills)
	checkNames(fields, "mcps", in.MCPs)
	checkKnowledge(fields, "knowledge", in.Knowledge)
	addFaults(fields, a.definition().Validate())
	a.Tools, a.Skills, a.MCPs = in.Tools, in.Skills, in.MCPs
	a.Knowledge = in.Knowledge
	return a, fields.Err()
}

func (a *Agent) setDefaults(in AgentInput) {
	runtime := agent.Agent{}
	if a.Title == "" {
		a.Title = a.Name
	}
	if a.PermissionMode == "" {
		a.PermissionMode = "default"
	}
	if a.SettingSources == nil {
		a.SettingSources = runtime.SkillSources()
	}
	if a.MaxTurns = runtime.TurnLimit(); in.MaxTurns != nil {
		a.MaxTurns = *in.MaxTurns
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

// addFaults adds the faults of a definition of the runtime, where the name is the id.
func addFaults(fields api.Fields, err error) {
	faults, _ := errors.AsType[agent.Faults](err)
	for _, f := range faults {
		key := f.Key
		if key == "id" {
			key = "name"
		}
		fields.Add(key, f.Message)
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

// checkNames checks the names of a set.
func checkNames(fields api.Fields, field string, names []string) {
	seen := map[string]bool{}
	for i, name := range checkList(fields, field, names) {
		if name != names[i] || seen[name] {
			fields.Add(index(field, i), quote(name)+" must not occur twice, and not have surrounding white space")
		}
		seen[name] = true
	}
}

func checkKnowledge(fields api.Fields, field string, refs []KnowledgeRef) {
	names := make([]string, len(refs))
	for i := range refs {
		names[i] = refs[i].Name
		fields.Line(index(field, i)+".description", refs[i].Description, 0, maxDescription)
	}
	checkNames(fields, field, names)
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
