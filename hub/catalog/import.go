package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/internal/excerpt"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

const (
	maxImport = 1 << 20 // bytes
	maxFault  = 300     // bytes of the key and of the message of a fault
)

// ImportAgent creates an agent from a configuration file of the runtime with one agent, such as
// ExportAgent returns. Provider, tools, skills, MCP servers and datasets must exist in the hub: the
// provider is found by protocol and base URL, datasets by their id, and the others by their name.
// Variables of the file are not replaced. An agent of the same name is replaced if replace is true;
// otherwise the error is api.NameTaken. A file that cannot be imported is api.ArtifactInvalid. Two
// files are parsed at a time.
func (s *Service) ImportAgent(ctx context.Context, caller api.Caller, text []byte, replace bool) (a Agent, created bool, err error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return Agent{}, false, err
	}
	var file *agent.Agent
	err = s.checked(ctx, caller, func() error {
		file, err = agent.ParseOne("agents.yaml", text, func(name string) (string, bool) { return "${" + name + "}", true })
		return err
	})
	if _, ok := errors.AsType[agent.Faults](err); ok {
		return Agent{}, false, invalidFile(err)
	}
	if err != nil {
		return Agent{}, false, err
	}
	in, err := s.importInput(ctx, caller.TenantID, *file)
	if err != nil {
		return Agent{}, false, err
	}
	input, err := in.validate("")
	if err != nil {
		return Agent{}, false, importFault(err)
	}
	err = s.change(ctx, caller, func(tx *store.Tx) error {
		a, created = input, false
		before, err := readAgent(ctx, tx, caller.TenantID, in.Name)
		switch {
		case errors.Is(err, api.NotFound):
			created = true
			err = s.insert(ctx, tx, &a)
		case err == nil && !replace:
			err = api.NameTaken.New("There is an agent " + in.Name + ": choose another name, or send replace=true.")
		case err == nil:
			err = s.replace(ctx, tx, before, &a)
		}
		if err != nil {
			return importFault(err)
		}
		detail := agentImportDetail{ProviderID: a.ProviderID, Model: a.Model, Sandbox: recorded(sandboxLines(a.Sandbox)), Replaced: !created}
		tx.Record(actionImportAgent.Record(a.event(caller), detail))
		return nil
	})
	return a, created, err
}

// importInput returns the input of an agent of a file.
func (s *Service) importInput(ctx context.Context, tenantID string, d agent.Agent) (AgentInput, error) {
	fields := api.Fields{}
	unsupported := func(key string, present bool) {
		if present {
			fields.Add("agents[0]."+key, "is not supported by the hub: remove it")
		}
	}
	unsupported("systemPromptFile", d.SystemPromptFile != "")
	unsupported("temperature", d.Temperature != nil)
	unsupported("thinking", d.Thinking != agent.Thinking{})
	unsupported("extraUserSkillDirs", d.ExtraUserSkillDirs != nil)
	unsupported("skillArchives", len(d.SkillArchives) > 0)
	unsupported("provider.apiKeyHeader", d.Provider.APIKeyHeader != "")
	unsupported("provider.headers", len(d.Provider.Headers) > 0)
	unsupported("provider.body", len(d.Provider.Body) > 0)
	unsupported("provider.streamUsage", d.Provider.StreamUsage != nil)
	in := AgentInput{
		Name: d.ID, Title: d.Name, Description: d.Description, Model: d.Model, SystemPrompt: d.SystemPrompt, PermissionMode: d.PermissionMode,
		AllowedTools: d.AllowedTools, DisallowedTools: d.DisallowedTools, SettingSources: d.SettingSources, Subagents: d.Subagents, Sandbox: d.Sandbox,
		Tools: []string{}, Skills: []string{}, MCPs: slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(d.MCPServers)))),
		Knowledge: []KnowledgeRef{},
	}
	if d.MaxTurns > 0 {
		in.MaxTurns = &d.MaxTurns
	}
	if h := d.Hub; h != nil {
		in.TitleEN = h.TitleEN
		in.DescriptionEN = h.DescriptionEN
		in.Icon = h.Icon
		in.IsDefault = h.IsDefault
		in.Enabled = h.Enabled
		in.Skills, in.Tools = append(in.Skills, h.Skills...), append(in.Tools, h.Tools...)
		if h.Title != "" {
			in.Title = h.Title
		}
	}
	for i, t := range d.CustomTools {
		if t.Name == "" {
			fields.Add(index("agents[0].customTools", i)+".name", "is missing")
		}
		in.Tools = append(in.Tools, t.Name)
	}
	p, err := s.cfg.Providers.Match(ctx, tenantID, d.Provider.Protocol, string(d.Provider.BaseURL))
	switch {
	case errors.Is(err, api.NotFound):
		fields.Add("agents[0].provider", "the hub has no provider with this protocol and baseUrl")
	case err != nil:
		return AgentInput{}, err
	}
	in.ProviderID = p.ID
	if err := s.importDatasets(ctx, tenantID, d, &in, fields); err != nil {
		return AgentInput{}, err
	}
	return in, importFault(fields.Err())
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
		ref := KnowledgeRef{Name: v.Name}
		if d.Datasets[id] != v.Description {
			ref.Description = d.Datasets[id]
		}
		in.Knowledge = append(in.Knowledge, ref)
	}
	return nil
}

// invalidFile returns the error of a file that cannot be parsed.
func invalidFile(err error) error {
	fields := api.Fields{}
	faults, _ := errors.AsType[agent.Faults](err)
	for _, f := range faults {
		key := f.Key
		if key == "" {
			key = "file"
		}
		fields.Add(excerpt.Shorten(key, maxFault), fmt.Sprintf("line %d: %s", f.Line, excerpt.Shorten(f.Message, maxFault)))
	}
	return invalidImport(fields)
}

// importFault returns invalid fields as the error of an import, and other errors unchanged.
func importFault(err error) error {
	if fields, ok := errors.AsType[api.Fields](err); ok {
		return invalidImport(fields)
	}
	return err
}

func invalidImport(fields api.Fields) error {
	return &api.Error{
		Code: api.ArtifactInvalid, Message: "The agent cannot be imported: see data.fields.", Data: map[string]api.Fields{"fields": fields},
	}
}

func (s *Service) importAgent(w http.ResponseWriter, r *http.Request) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != yamlType {
		return api.UnsupportedMedia.New("The body must be YAML: send \"Content-Type: application/yaml\".")
	}
	text, err := httpapi.ReadBody(w, r, maxImport)
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
