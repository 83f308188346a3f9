package catalog

import (
	"context"
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/api"
	"github.com/seed93082962/agenthost/hub/store"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Masked replaces the values of environments and headers in responses. In a request, it means
// the stored value.
const Masked = "***"

// MCP is a server of the Model Context Protocol, by the rules of [agent.MCPServer]. The values of
// Env and Headers are Masked.
type MCP struct {
	Component

	Transport string            `json:"transport"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	CWD       string            `json:"cwd,omitempty"`
	Sandbox   agent.Sandbox     `json:"sandbox,omitzero"`
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Enabled   bool              `json:"enabled"`
}

// MCPInput is an MCP server. Without a title, the title is the name. It is enabled by default. CWD
// is relative to the working directory of the agent and defaults to a private empty directory.
// Sandbox adds to that of the agent.
type MCPInput struct {
	Name        string            `json:"name"` // of an existing server, "" or its name
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Transport   string            `json:"transport"`
	Command     string            `json:"command"`
	Args        []string          `json:"args"`
	Env         map[string]string `json:"env"`
	CWD         string            `json:"cwd"`
	Sandbox     agent.Sandbox     `json:"sandbox"`
	URL         string            `json:"url"`
	Headers     map[string]string `json:"headers"`
	Enabled     *bool             `json:"enabled"`
}

const (
	maxCommand = 4096
	maxPairs   = 100
	maxValue   = 32 << 10 // of an environment or a header
	maxValues  = 64 << 10 // of all arguments, environment and headers with their names
)

func (in MCPInput) apply(fields api.Fields, v *MCP) {
	v.Name = checkedName(fields, v.Name, in.Name, "one", checkServerName)
	v.Title = fields.Line("title", in.Title, 0, maxTitle)
	v.Description = fields.Text("description", in.Description, 0, maxDescription)
	v.Transport = in.Transport
	v.Command = fields.Line("command", in.Command, 0, maxCommand)
	v.Args = checkArgs(fields, in.Args)
	v.Env = checkPairs(fields, "env", in.Env)
	v.CWD = fields.Line("cwd", in.CWD, 0, maxCommand)
	v.Sandbox = checkSandbox(fields, in.Sandbox)
	v.URL = fields.Line("url", in.URL, 0, maxCommand)
	v.Headers = checkPairs(fields, "headers", in.Headers)
	v.Enabled = in.Enabled == nil || *in.Enabled
	server := v.server()
	server.Env = secrets(v.Env)
	server.Headers = secrets(v.Headers)
	checkServer(fields, "server", server, "")
}

// server returns the server as the runtime has it, without environment and headers.
func (v MCP) server() agent.MCPServer {
	return agent.MCPServer{Transport: v.Transport, Command: v.Command, Args: v.Args, CWD: v.CWD, URL: v.URL, Sandbox: v.Sandbox}
}

var (
	actionCreateMCP = auditlog.Define[mcpDetail]("agent.create_mcp")
	actionUpdateMCP = auditlog.Define[mcpUpdateDetail]("agent.update_mcp")
	actionDeleteMCP = auditlog.Define[mcpDetail]("agent.delete_mcp")
)

// Arguments and addresses may contain secrets: they are recorded by hash and length.
type (
	mcpDetail struct {
		Transport string   `json:"transport"`
		Command   string   `json:"command"`
		CWD       string   `json:"cwd,omitempty"`
		Sandbox   []string `json:"sandbox,omitempty"`
		Env       []string `json:"env"`     // names
		Headers   []string `json:"headers"` // names
		Enabled   bool     `json:"enabled"`
	}
	mcpUpdateDetail struct {
		Title       *auditlog.Change[string]   `json:"title,omitempty"`
		Description *auditlog.Change[string]   `json:"description,omitempty"`
		Transport   *auditlog.Change[string]   `json:"transport,omitempty"`
		Command     *auditlog.Change[string]   `json:"command,omitempty"`
		Args        *auditlog.Change[string]   `json:"args,omitempty"`
		CWD         *auditlog.Change[string]   `json:"cwd,omitempty"`
		Sandbox     *auditlog.Change[[]string] `json:"sandbox,omitempty"`
		URL         *auditlog.Change[string]   `json:"url,omitempty"`
		Env         *auditlog.Change[[]string] `json:"env,omitempty"`
		Headers     *auditlog.Change[[]string] `json:"headers,omitempty"`
		Values      []string                   `json:"values,omitempty"` // names whose value was replaced, such as env.TOKEN
		Enabled     *auditlog.Change[bool]     `json:"enabled,omitempty"`
	}
)

func updatedMCP(from, to MCP) mcpUpdateDetail {
	return mcpUpdateDetail{
		Title: auditlog.Diff(from.Title, to.Title), Description: auditlog.Diff(from.Description, to.Description),
		Transport: auditlog.Diff(from.Transport, to.Transport), Command: auditlog.Diff(from.Command, to.Command), CWD: auditlog.Diff(from.CWD, to.CWD),
		Sandbox: changedList(sandboxLines(from.Sandbox), sandboxLines(to.Sandbox)),
		Args:    auditlog.Diff(summary(strings.Join(from.Args, "\n")), summary(strings.Join(to.Args, "\n"))), URL: auditlog.Diff(summary(from.URL), summary(to.URL)),
		Env: auditlog.Diff(names(from.Env), names(to.Env)), Headers: auditlog.Diff(names(from.Headers), names(to.Headers)),
		Values: append(replaced("env.", from.Env, to.Env), replaced("headers.", from.Headers, to.Headers)...), Enabled: auditlog.Diff(from.Enabled, to.Enabled),
	}
}

// replaced returns the names of both maps whose values differ.
func replaced(prefix string, from, to map[string]string) (all []string) {
	for _, name := range names(to) {
		if before, ok := from[name]; ok && before != to[name] {
			all = append(all, prefix+name)
		}
	}
	return all
}

func (s *Service) mcps() *Components[MCP, MCPInput, *MCP] {
	detail := func(_, v MCP) mcpDetail {
		return mcpDetail{
			Transport: v.Transport, Command: v.Command, CWD: v.CWD, Sandbox: recorded(sandboxLines(v.Sandbox)),
			Env: names(v.Env), Headers: names(v.Headers), Enabled: v.Enabled,
		}
	}
	return &Components[MCP, MCPInput, *MCP]{
		s: s, kind: kindMCP, table: "mcps", order: "name", path: "/api/v1/admin/mcps",
		none: api.NotFound.New("There is no such MCP server."), inUse: api.InUse,
		columns: func(v *MCP) []column {
			return v.columns(column{"transport", &v.Transport}, column{"command", &v.Command}, column{"args", jsonField{&v.Args, "[]"}},
				column{"env", jsonField{&v.Env, "{}"}}, column{"cwd", &v.CWD}, column{"sandbox", jsonField{&v.Sandbox, ""}}, column{"url", &v.URL},
				column{"headers", jsonField{&v.Headers, "{}"}}, column{"enabled", &v.Enabled})
		},
		prepare: func(_ context.Context, tx *store.Tx, before MCP, v *MCP) error {
			return s.seal(tx.Caller.TenantID, v, before)
		},
		show: func(_ context.Context, all []MCP, _ bool) error {
			for i := range all {
				all[i].Env = mask(all[i].Env)
				all[i].Headers = mask(all[i].Headers)
			}
			return nil
		},
		content: MCP.content,
		create:  recordOf(actionCreateMCP, detail), update: recordOf(actionUpdateMCP, updatedMCP), remove: recordOf(actionDeleteMCP, detail),
	}
}

// content is what agents run of the server, without its values. A server without cwd and sandbox
// has that of versions that do not have the fields.
func (v MCP) content() ([]any, error) {
	content := []any{v.Transport, v.Command, v.Args, v.URL, names(v.Env), names(v.Headers), v.Enabled}
	sandbox, err := jsonField{&v.Sandbox, ""}.Value()
	switch {
	case sandbox != "":
		content = append(content, v.CWD, sandbox)
	case v.CWD != "":
		content = append(content, v.CWD)
	}
	return content, err
}

func mask(pairs map[string]string) map[string]string {
	masked := make(map[string]string, len(pairs))
	for name := range pairs {
		masked[name] = Masked
	}
	return masked
}
