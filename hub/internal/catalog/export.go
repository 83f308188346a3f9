package catalog

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/ids"
	"github.com/seed93082962/agenthost/internal/leaf/deadline"
	"github.com/seed93082962/agenthost/rbac"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// ExportAgent returns an agent, with its prompts, as a configuration file of the runtime, in YAML,
// which ImportAgent accepts. Instead of secrets it has variables such as ${ANTHROPIC_API_KEY},
// which the runtime takes from its environment. Custom tools are files at their public addresses,
// without those that are missing. Skills have no public address: the file has only their names.
func (s *Service) ExportAgent(ctx context.Context, caller api.Caller, name string) ([]byte, error) {
	if err := rbac.AdminWrite.Check(caller); err != nil {
		return nil, err
	}

	p, err := s.partsOf(ctx, caller.TenantID, name, func(tx *sql.Tx, p *parts) (err error) {
		p.provider, p.settings, err = s.cfg.Providers.Get(ctx, tx, caller.TenantID, p.agent.ProviderID)
		return err
	})
	if err != nil {
		return nil, err
	}

	config, err := s.config(ctx, p, func(v MCP) (agent.MCPServer, error) { return withoutEmpty(settings.Mask(v.MCPServer)), nil })
	if err != nil {
		return nil, err
	}

	// A secret is written as a mark with the name of a variable, which becomes ${NAME} in the text:
	// a field of the agent cannot contain a mark that is made here.
	mark := ids.New()
	protocol := p.provider.Protocol
	for name, server := range config.MCPServers {
		server.Command, server.CWD = literal(server.Command), literal(server.CWD)
		server.URL = literal(server.URL)
		server.Args = slices.Clone(server.Args)
		for i, arg := range server.Args {
			server.Args[i] = literal(arg)
		}

		config.MCPServers[name] = settings.Replace(server, func(key, _ string) string {
			_, key, _ = strings.Cut(key, ".") // env, headers or query
			return mark + variable("MCP_"+name+"_"+key)
		})
	}

	body := config.Provider.Body // it has no variables: its texts are masked
	config.Provider.Body = nil
	config.Provider = settings.Replace(config.Provider, func(key, _ string) string { return mark + variable(protocol+"_"+key) })
	config.Provider.Body = body
	if p.provider.HasKey {
		config.Provider.APIKey = agent.Secret(mark + variable(protocol+"_API_KEY"))
	}

	a := p.agent
	access := agent.HubAccess(a.Access)
	config.Hub = &agent.Hub{
		Title: a.Title, TitleEN: a.TitleEN, DescriptionEN: a.DescriptionEN, Icon: a.Icon, IsDefault: a.IsDefault, Enabled: &a.Enabled, Skills: a.Skills, Provider: p.provider.Name,
		Tools:      slices.DeleteFunc(slices.Clone(a.Tools), func(name string) bool { return s.Tools.builtinNamed(name) == nil }),
		Deployment: a.Deployment, Access: &access, Approvers: a.Approvers,
	}
	text, err := yaml.Marshal(agent.File{Agents: []agent.Agent{config}})
	if err != nil {
		return nil, fmt.Errorf("encode agent: %w", err)
	}

	return regexp.MustCompile(mark+"([A-Z0-9_]+)").ReplaceAll(text, []byte("$${$1}")), nil
}

// literal returns a text that a runtime reads from a file as it is. References to env remain.
func literal(text string) string {
	const reference = "${" + agentvalue.OwnVariable
	return strings.ReplaceAll(strings.ReplaceAll(text, "${", "$${"), "$"+reference, reference)
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
