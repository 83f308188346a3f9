package catalog

import (
	"strings"

	"github.com/seed93082962/agenthost/auditlog"
)

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
