package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/auditlog"
	"github.com/seed93082962/agenthost/hub/internal/api"
	"github.com/seed93082962/agenthost/hub/internal/code"
	"github.com/seed93082962/agenthost/hub/internal/settings"
	"github.com/seed93082962/agenthost/hub/internal/store"
	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/db"
	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// MCP is a server of the Model Context Protocol, with the settings of the runtime and by its rules.
// Secrets are [settings.Masked], in responses for the stored value and in requests to keep it.
type MCP struct {
	wire.Component
	agent.MCPServer

	Enabled bool
}

// MarshalJSON encodes the server as clients see it.
func (v MCP) MarshalJSON() ([]byte, error) {
	out := wire.MCP{
		Component: v.Component, Transport: v.Transport, Command: v.Command, Args: v.Args, Env: settings.Plain(v.Env), CWD: v.CWD, Sandbox: v.Sandbox,
		URL: v.URL, Headers: settings.Plain(v.Headers), Instructions: v.Instructions, Enabled: v.Enabled,
		OAuth: wire.OAuth{
			ClientID: v.OAuth.ClientID, ClientSecret: string(v.OAuth.ClientSecret), Issuer: v.OAuth.Issuer,
			Scope: v.OAuth.Scope, Audience: v.OAuth.Audience,
		},
	}
	if v.Timeout != 0 {
		out.Timeout = v.Timeout.String()
	}

	return httpapi.Marshal(out)
}

// MCPInput is the request for an MCP server.
type MCPInput struct {
	wire.MCPRequest

	faults error // of a body
}

// server returns the server as the runtime has it.
func (in MCPInput) server(fields api.Fields) agent.MCPServer {
	server := agent.MCPServer{
		Transport: in.Transport, Sandbox: checkSandbox(fields, in.Sandbox), Instructions: in.Instructions,
		Command: fields.Line("command", in.Command, 0, maxCommand), Args: checkArgs(fields, in.Args), CWD: fields.Line("cwd", in.CWD, 0, maxCommand),
		Env: checkPairs(fields, "env", settings.Hidden(in.Env)), Headers: checkPairs(fields, "headers", settings.Hidden(in.Headers)),
		URL: fields.Line("url", in.URL, 0, maxCommand),
		OAuth: agent.OAuth{
			ClientID: in.OAuth.ClientID, ClientSecret: agent.Secret(in.OAuth.ClientSecret), Issuer: in.OAuth.Issuer,
			Scope: fields.Line("oauth.scope", in.OAuth.Scope, 0, maxCommand), Audience: fields.Line("oauth.audience", in.OAuth.Audience, 0, maxCommand),
		},
	}
	if in.Timeout == "" {
		return server
	}

	var err error
	if server.Timeout, err = time.ParseDuration(in.Timeout); err != nil {
		fields.Add("timeout", `must be a duration such as "90s" or "30m"`)
	}

	return server
}

// UnmarshalJSON decodes a form. Its faults are those of all fields.
func (in *MCPInput) UnmarshalJSON(data []byte) error {
	type plain MCPInput
	*in = MCPInput{}
	in.faults = agent.DecodeForm(data, (*plain)(in))
	return settings.NotObject(in.faults)
}

const (
	maxCommand = 4096
	maxPairs   = 100
	maxValue   = 32 << 10 // of an environment or a header
	maxValues  = 64 << 10 // of all arguments and secrets with their names
)

func applyMCP(fields api.Fields, in MCPInput, v *MCP) error {
	settings.AddFaults(fields, in.faults)
	applyTexts(fields, &v.Component, in.Name, in.Title, in.Description, checkServerName)
	v.MCPServer = in.server(fields)
	v.Enabled = in.Enabled == nil || *in.Enabled
	if text, err := json.Marshal(settings.Mask(v.withoutColumns())); err != nil || len(text) > maxValues {
		fields.Add("server", fmt.Sprintf("must have at most %d bytes of settings", maxValues))
	}

	checkServer(fields, "server", v.MCPServer, "")
	return in.faults
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
		Settings  []string `json:"settings,omitempty"`
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
		Settings    *auditlog.Change[[]string] `json:"settings,omitempty"` // all others of the runtime
		URL         *auditlog.Change[string]   `json:"url,omitempty"`
		Env         *auditlog.Change[[]string] `json:"env,omitempty"`
		Headers     *auditlog.Change[[]string] `json:"headers,omitempty"`
		Values      []string                   `json:"values,omitempty"` // names whose value was replaced, such as env.TOKEN
		Enabled     *auditlog.Change[bool]     `json:"enabled,omitempty"`
	}
)

func updatedMCP(e auditlog.Event, from, to MCP) auditlog.Record {
	detail := changed[mcpUpdateDetail](from, to)
	detail.Args = auditlog.Diff(settings.Summary(strings.Join(from.Args, "\n")), settings.Summary(strings.Join(to.Args, "\n")))
	detail.URL = auditlog.Diff(settings.Summary(settings.Mask(from.MCPServer).URL), settings.Summary(settings.Mask(to.MCPServer).URL))
	detail.Sandbox = settings.Changed(settings.Lines(from.Sandbox), settings.Lines(to.Sandbox))
	detail.Settings = settings.Changed(from.settingLines(), to.settingLines())
	detail.Env = auditlog.Diff(names(from.Env), names(to.Env))
	detail.Headers = auditlog.Diff(names(from.Headers), names(to.Headers))
	detail.Values = settings.Replaced(from.MCPServer, to.MCPServer)
	return actionUpdateMCP.Record(e, detail)
}

// settingLines returns the settings that have no column and no field in a detail.
func (v *MCP) settingLines() []string {
	lines := settings.Lines(settings.Mask(v.withoutColumns()))
	return slices.DeleteFunc(lines, func(line string) bool { return line == "transport: " })
}

func (s *Service) mcps() *Components[MCP, MCPInput] {
	detail := func(action auditlog.Action[mcpDetail]) record[MCP] {
		return func(e auditlog.Event, _, v MCP) auditlog.Record {
			d := recorded[mcpDetail](v)
			d.Sandbox, d.Settings = settings.Recorded(settings.Lines(v.Sandbox)), settings.Recorded(v.settingLines())
			d.Env, d.Headers = names(v.Env), names(v.Headers)
			return action.Record(e, d)
		}
	}
	return &Components[MCP, MCPInput]{
		s: s, kind: kindMCP, table: "mcps", order: "name", path: "/api/v1/admin/mcps",
		none: wire.NotFound.New("There is no such MCP server."), inUse: code.InUse, apply: applyMCP,
		common: func(v *MCP) *wire.Component { return &v.Component },
		columns: func(v *MCP) []column {
			return []column{
				{"settings", serverSettings{v}}, {"secrets", serverSecrets{v}}, // before those with a column
				{"transport", &v.Transport}, {"command", &v.Command}, {"args", db.JSON{V: &v.Args, Zero: "[]"}},
				{"env", db.JSON{V: &v.Env, Zero: "{}"}}, {"cwd", &v.CWD},
				{"sandbox", db.JSON{V: &v.Sandbox, Zero: ""}}, {"url", serverURL{v}},
				{"headers", db.JSON{V: &v.Headers, Zero: "{}"}}, {"enabled", &v.Enabled},
			}
		},
		prepare: func(_ context.Context, tx *store.Tx, before MCP, v *MCP) error {
			return s.seal(tx.Caller.TenantID, v, before)
		},
		show: func(_ context.Context, all []MCP, _ bool) error {
			for i := range all {
				all[i].MCPServer = settings.Mask(withoutEmpty(all[i].MCPServer))
			}

			return nil
		},
		content: MCP.content,
		create:  detail(actionCreateMCP), update: updatedMCP, remove: detail(actionDeleteMCP),
	}
}

// content is what agents run of the server, without its values. A server without cwd and sandbox
// has that of versions that do not have the fields.
func (v MCP) content() ([]any, error) {
	content := []any{v.Transport, v.Command, v.Args, settings.Mask(v.MCPServer).URL, names(v.Env), names(v.Headers), v.Enabled}
	sandbox, err := db.JSON{V: &v.Sandbox, Zero: ""}.Value()
	switch {
	case sandbox != "":
		content = append(content, v.CWD, sandbox)
	case v.CWD != "":
		content = append(content, v.CWD)
	}

	if rest := settings.Mask(v.withoutColumns()); !reflect.ValueOf(rest).IsZero() {
		content = append(content, rest)
	}

	return content, err
}

// withoutEmpty returns a server with nil in place of empty lists and maps.
func withoutEmpty(s agent.MCPServer) agent.MCPServer {
	if len(s.Args) == 0 {
		s.Args = nil
	}

	if len(s.Env) == 0 {
		s.Env = nil
	}

	if len(s.Headers) == 0 {
		s.Headers = nil
	}

	return s
}

// The names and values of header fields (RFC 9110, sections 5.1 and 5.5), without obsolete text.
var (
	headerName  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")
	headerValue = regexp.MustCompile(`^[\t -~]*$`)
)

// checkServerName checks a name by the runtime's rule for the names of MCP servers.
func checkServerName(fields api.Fields, field, name string) {
	if len(name) == 0 || len(name) > 63 {
		fields.Add(field, "must have 1 to 63 characters")
		return
	}

	checkServer(fields, name, agent.MCPServer{Transport: agentvalue.TransportStdio, Command: "c"}, field)
}

// checkServer checks a server by the rules of the runtime. The names of the faults are those of the
// fields of the server, or field if that is not empty.
func checkServer(fields api.Fields, name string, server agent.MCPServer, field string) {
	probe := agent.Agent{
		ID: "a", Model: "m", Provider: agent.Provider{Protocol: agent.ProtocolDemo}, MCPServers: map[string]agent.MCPServer{name: server},
	}
	faults, _ := errors.AsType[agent.Faults](probe.Validate())
	unusable, _ := errors.AsType[agent.Faults](probe.Check())
	for _, f := range slices.Concat(faults, unusable) {
		key := field
		if key == "" {
			key = strings.TrimPrefix(f.Key, "mcpServers."+name+".")
		}

		fields.Add(key, f.Message)
	}
}

func checkArgs(fields api.Fields, args []string) []string {
	if len(args) > maxList {
		fields.Add("args", fmt.Sprintf("must have at most %d elements", maxList))
		return nil
	}

	for i, arg := range args {
		if len(arg) > maxCommand || strings.ContainsRune(arg, 0) {
			fields.Add(index("args", i), fmt.Sprintf("must have at most %d bytes, and not U+0000", maxCommand))
		}
	}

	return append([]string{}, args...)
}

// checkPairs checks an environment or headers, and returns a copy with canonical names of headers.
// Messages never contain a value.
func checkPairs(fields api.Fields, field string, pairs map[string]agent.Secret) map[string]agent.Secret {
	if len(pairs) > maxPairs {
		fields.Add(field, fmt.Sprintf("must have at most %d elements", maxPairs))
		return nil
	}

	checked := make(map[string]agent.Secret, len(pairs))
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		value, at := string(pairs[name]), field+"."+name
		isHeader := field == "headers"
		if isHeader && !headerName.MatchString(name) || !isHeader && !validVariable(name) {
			fields.Add(field, quote(name)+" is not a valid name")
			continue
		}

		if isHeader {
			name = http.CanonicalHeaderKey(name)
		}

		if len(value) > maxValue || strings.ContainsRune(value, 0) || isHeader && !headerValue.MatchString(value) {
			fields.Add(at, fmt.Sprintf("must have at most %d bytes and no control characters", maxValue))
		}

		if _, repeated := checked[name]; repeated {
			fields.Add(at, "must not occur twice")
		}

		checked[name] = agent.Secret(value)
	}

	return checked
}

// validVariable reports whether name can be that of an environment variable.
func validVariable(name string) bool {
	return name != "" && len(name) <= maxTitle && !strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || c == '=' })
}

// names returns the names of an environment or of headers, sorted.
func names(pairs map[string]agent.Secret) []string {
	return slices.AppendSeq([]string{}, slices.Values(slices.Sorted(maps.Keys(pairs))))
}
