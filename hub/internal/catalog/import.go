package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/provider"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	maxFault  = 300 // bytes of the key and of the message of a fault
	maxFaults = 100
)

// ImportAgent creates an agent from a configuration file of the runtime with one agent, such as
// ExportAgent returns. Provider, tools, skills, MCP servers and datasets must exist in the hub: the
// provider is found by its address and its settings, datasets by their id, and the others by their
// name. Variables of the file are not replaced: they are the secrets of the hub. An agent of the
// same name is replaced if replace is true; otherwise the error is wire.NameTaken. Without access
// in the file, a new agent is visible to the caller and to users who may change agents, and a
// replaced one keeps its access. A file that cannot be imported is code.ArtifactInvalid, with all
// faults. Two files are parsed at a time.
func (s *Service) ImportAgent(ctx context.Context, caller api.Caller, text []byte, replace bool) (Agent, bool, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return Agent{}, false, err
	}

	var file *agent.File
	var err error
	err = s.checks.Do(ctx, caller, func() error {
		file, err = agent.ParseOne("agents.yaml", text, func(name string) (string, bool) { return "${" + name + "}", true })
		return err
	})
	fields := api.Fields{}
	faults, ok := errors.AsType[agent.Faults](err)
	if err != nil && !ok {
		return Agent{}, false, err
	}

	for _, f := range faults {
		fields.Add(excerpt.Shorten(cmp.Or(f.Key, "file"), maxFault), fmt.Sprintf("line %d: %s", f.Line, excerpt.Shorten(f.Message, maxFault)))
	}

	if file == nil {
		return Agent{}, false, importFault(fields)
	}

	in, err := s.importInput(ctx, caller.TenantID, *file, fields)
	if err != nil {
		return Agent{}, false, err
	}

	if len(fields) >= maxFaults {
		return Agent{}, false, importFault(fields)
	}

	input := in.checked("", fields)
	var a Agent
	var created bool
	err = s.change(ctx, caller, func(tx *store.Tx) error {
		a, created = input, false
		before, err := readAgent(ctx, tx, caller.TenantID, in.Name)
		switch {
		case errors.Is(err, wire.NotFound):
			created = true
			if a.Access.IsZero() {
				a.Access = wire.AgentAccess{Users: []string{caller.UserID}, Groups: []string{}}
			}

			err = s.insert(ctx, tx, &a, maps.Clone(fields))
		case err == nil && !replace:
			err = wire.NameTaken.New("There is an agent " + in.Name + ": choose another name, or send replace=true.")
		case err == nil:
			err = s.replace(ctx, tx, before, &a, maps.Clone(fields))
		}

		if err != nil {
			return importFault(err)
		}

		provider, err := s.providerName(ctx, tx, a.ProviderID)
		tx.Record(actionImportAgent.Record(a.event(caller), agentImportDetail{
			Provider: provider, ProviderID: a.ProviderID, Model: a.Model, Sandbox: settings.Recorded(settings.Lines(a.Sandbox)),
			Approvers: a.Approvers, Settings: settings.Recorded(a.settingLines()), Replaced: !created,
		}))
		return err
	})
	return a, created, err
}

// importInput returns the input of the agent of a file. It adds what the hub does not have.
func (s *Service) importInput(ctx context.Context, tenantID string, file agent.File, fields api.Fields) (AgentInput, error) {
	for key, present := range map[string]bool{
		"auth": file.Auth.APIKeys != nil, "cwd": file.CWD != "", "agentHome": file.AgentHome != "", "stateDir": file.StateDir != "",
		"storeOnRequest": file.StoreOnRequest,
		"bus":            file.Bus != "", "sandbox": file.Sandbox != agent.SandboxSettings{}, "agents[0].systemPromptFile": file.Agents[0].SystemPromptFile != "",
		"agents[0].skillArchives": len(file.Agents[0].SkillArchives) > 0,
	} {
		if present {
			fields.Add(key, "is not part of an agent of a hub: the hub sets it for each deployment, remove it")
		}
	}

	if file.Agents[0].SystemPromptFile != "" {
		fields["agents[0].systemPromptFile"] = "is a file of another machine: write its text in systemPrompt"
	}

	d := file.Agents[0]
	in := AgentInput{AgentRequest: wire.AgentRequest{
		Name: d.ID, Title: d.Name, Description: d.Description, Model: d.Model, SystemPrompt: d.SystemPrompt, PermissionMode: d.PermissionMode,
		AllowedTools: d.AllowedTools, DisallowedTools: d.DisallowedTools, Sandbox: d.Sandbox, MaxOutputTokens: d.MaxOutputTokens,
		ContextWindow: d.ContextWindow, Temperature: d.Temperature, Thinking: d.Thinking, ExtraUserSkillDirs: d.ExtraUserSkillDirs,
		CommandEnv: settings.Plain(d.CommandEnv), Limits: d.Limits, OutputSchema: d.OutputSchema, Subagents: d.Subagents, SettingSources: d.SettingSources,
		Tools: []string{}, Skills: []string{}, Knowledge: []wire.KnowledgeRef{}, MCPs: slices.AppendSeq([]string{}, maps.Keys(d.MCPServers)),
	}}
	if d.MaxTurns != 0 {
		in.MaxTurns = &d.MaxTurns
	}

	slices.Sort(in.MCPs)
	importLimits(file.Limits, &in.Limits, fields)
	if h := d.Hub; h != nil {
		in.Title = cmp.Or(h.Title, in.Title)
		in.TitleEN = h.TitleEN
		in.DescriptionEN = h.DescriptionEN
		in.Icon = h.Icon
		in.IsDefault = h.IsDefault
		in.Enabled = h.Enabled
		in.Deployment = h.Deployment
		in.Approvers = h.Approvers
		if h.Access != nil {
			in.Access = Access{Users: append([]string{}, h.Access.Users...), Groups: append([]string{}, h.Access.Groups...), Everyone: h.Access.Everyone}
		}

		in.Skills, in.Tools = append(in.Skills, h.Skills...), append(in.Tools, h.Tools...)
	}

	for i, t := range d.CustomTools {
		if t.Name == "" {
			fields.Add(index("agents[0].customTools", i)+".name", "is missing")
			continue
		}

		in.Tools = append(in.Tools, t.Name)
	}

	lacks := api.Fields{}
	faulty := slices.ContainsFunc(slices.Collect(maps.Keys(fields)), func(key string) bool { return strings.HasPrefix(key, "agents[0].provider") })
	name := ""
	if d.Hub != nil {
		name = d.Hub.Provider
	}

	p, err := s.cfg.Providers.Match(ctx, tenantID, name, d.Provider, lacks)
	switch {
	case errors.Is(err, wire.NotFound):
		if !faulty {
			fields.Add("agents[0].provider", "the hub has no provider with this protocol and baseUrl")
		}

		in.ProviderID = provider.Demo // it has a fault
	case err != nil:
		return AgentInput{}, err
	default:
		in.ProviderID = p.ID
	}

	for field, reason := range lacks {
		fields.Add("agents[0].provider."+excerpt.Shorten(field, maxFault), reason)
	}

	// The limits of the model are those of the provider, unless the agent has others.
	if model := p.ModelNamed(d.Model); !p.Shared {
		if in.ContextWindow == model.ContextWindow {
			in.ContextWindow = 0
		}

		if in.MaxOutputTokens == model.MaxOutput {
			in.MaxOutputTokens = 0
		}
	}

	return in, s.importDatasets(ctx, tenantID, d, &in, fields)
}

// importLimits sets the limits of an agent that it does not have to those of its file. It adds a
// fault for each limit of the file that an agent cannot have.
func importLimits(file agent.Limits, limits *agent.AgentLimits, fields api.Fields) {
	for field, value := range reflect.ValueOf(file).Fields() {
		own := reflect.ValueOf(limits).Elem().FieldByName(field.Name)
		switch {
		case value.IsZero():
		case !own.IsValid():
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			fields.Add("limits."+name, "is a limit of the whole runtime, which an agent of a hub does not have: remove it")
		case own.IsZero():
			own.Set(value)
		}
	}
}

// importDatasets finds the knowledge sets of datasets.
func (s *Service) importDatasets(ctx context.Context, tenantID string, d agent.Agent, in *AgentInput, fields api.Fields) error {
	if len(d.Datasets) > maxList {
		fields.Add("agents[0].datasets", fmt.Sprintf("must have at most %d elements", maxList))
		return nil
	}

	for _, id := range slices.Sorted(maps.Keys(d.Datasets)) {
		found, _, err := s.Knowledge.page(ctx, tenantID, "", 1, 0, ofDataset, id)
		if err != nil {
			return err
		}

		if len(found) == 0 {
			fields.Add("agents[0].datasets."+id, "the hub has no knowledge set with this datasetId")
			continue
		}

		v := found[0]
		ref := wire.KnowledgeRef{Name: v.Name}
		if d.Datasets[id] != v.Description {
			ref.Description = d.Datasets[id]
		}

		in.Knowledge = append(in.Knowledge, ref)
	}

	return nil
}

// importFault returns invalid fields as the error of an import, and other errors unchanged.
func importFault(err error) error {
	fields, ok := errors.AsType[api.Fields](err)
	if !ok {
		return err
	}

	for key := range fields { // a value that cannot be decoded has one fault
		if in, ok := strings.CutPrefix(key, "agents[0]."); ok {
			delete(fields, in)
			if in == "id" {
				delete(fields, "name")
			}
		}
	}

	return &wire.Error{
		Code: code.ArtifactInvalid, Message: "The agent cannot be imported: correct these fields.", Data: wire.ErrorData{Fields: fields},
	}
}

func (s *Service) importAgent(w http.ResponseWriter, r *http.Request) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != yamlType {
		return code.UnsupportedMedia.New("The body must be YAML: send \"Content-Type: application/yaml\".")
	}

	text, err := api.ReadBody(w, r)
	if err != nil {
		return err
	}

	a, created, err := s.ImportAgent(r.Context(), api.CallerOf(r), text, r.URL.Query().Get("replace") == "true")
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}

	return api.Result(status, func(*http.Request) (Agent, error) { return a, err })(w, r)
}
