package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/provider"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/internal/deadline"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// ExportAgent returns an agent as a configuration file of the runtime, in YAML, which ImportAgent
// accepts. Instead of secrets it has variables such as ${ANTHROPIC_API_KEY}, which the runtime
// takes from its environment. Custom tools are files at their public addresses, without those that
// are missing. Skills have no public address: the file has only their names.
func (s *Service) ExportAgent(ctx context.Context, caller api.Caller, name string) ([]byte, error) {
	if err := rbac.AdminRead.Check(caller); err != nil {
		return nil, err
	}
	p, err := s.partsOf(ctx, caller.TenantID, name, func(tx *sql.Tx, a Agent) (provider.Provider, error) {
		return s.cfg.Providers.Get(ctx, tx, caller.TenantID, a.ProviderID)
	})
	if err != nil {
		return nil, err
	}
	// The values of secrets are replaced below.
	config, err := s.config(ctx, p, func(_ store.Sealed, _ MCP, sealed map[string]string) (map[string]agent.Secret, error) {
		return secrets(mask(sealed)), nil
	})
	if err != nil {
		return nil, err
	}
	if p.provider.HasKey {
		config.Provider.APIKey = Masked
	}
	a := p.agent
	enabled := a.Enabled
	config.Hub = &agent.Hub{
		Title: a.Title, TitleEN: a.TitleEN, DescriptionEN: a.DescriptionEN, Icon: a.Icon, IsDefault: a.IsDefault, Enabled: &enabled, Skills: a.Skills,
		Tools: slices.DeleteFunc(slices.Clone(a.Tools), func(name string) bool { return s.Tools.builtinNamed(name) == nil }),
	}
	return encodeExport(agent.File{Agents: []agent.Agent{config}}, p.provider.Protocol)
}

// encodeExport encodes a file with variables in place of its secrets.
func encodeExport(file agent.File, protocol string) ([]byte, error) {
	var root yaml.Node
	if err := root.Encode(file); err != nil {
		return nil, fmt.Errorf("encode agent: %w", err)
	}
	entry := value(&root, "agents").Content[0]
	setVariable(value(value(entry, "provider"), "apiKey"), strings.ToUpper(protocol)+"_API_KEY")
	servers := value(entry, "mcpServers")
	for name := range file.Agents[0].MCPServers {
		server := value(servers, name)
		for _, pairs := range []*yaml.Node{value(server, "env"), value(server, "headers")} {
			for i := 0; pairs != nil && i+1 < len(pairs.Content); i += 2 {
				setVariable(pairs.Content[i+1], variable("MCP_"+name+"_"+pairs.Content[i].Value))
			}
		}
	}
	text, err := yaml.Marshal(&root)
	if err != nil {
		return nil, fmt.Errorf("encode agent: %w", err)
	}
	return text, nil
}

// value returns the value of a key of a mapping, or nil.
func value(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; mapping != nil && i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func setVariable(scalar *yaml.Node, name string) {
	if scalar != nil {
		scalar.Value = "${" + name + "}"
	}
}

// variable returns the name of an environment variable for a text.
func variable(text string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToUpper(text))
}

const yamlType = "application/yaml"

func (s *Service) exportAgent(w http.ResponseWriter, r *http.Request) error {
	text, err := s.ExportAgent(r.Context(), api.CallerOf(r), r.PathValue("name"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", yamlType)
	w.Header().Set("Content-Disposition", `attachment; filename="agents.yaml"`)
	out := deadline.NewWriter(w, 0)
	_, err = out.Write(text)
	return err
}
