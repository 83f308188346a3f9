// Package agent defines agents as plain data: name, model, tools, permissions. It starts no
// process, opens no file and reads no environment.
//
// An [Agent] is built in Go, or by [Parse] from the YAML or JSON text of a configuration [File]:
//
//	auth: {apiKey: "${HTTP_KEY}"}
//	limits: {runTimeout: 10m}
//	agents:
//	  - id: coder
//	    model: claude-sonnet-4-5
//	    provider: {protocol: anthropic, apiKey: "${TEAM_KEY}"}
//	    systemPromptFile: prompts/coder.md
//	    allowedTools: [Read, "Bash(git *)"]
//
// The keys of the file are the JSON names of the fields. Parse reads the output of json.Marshal and
// yaml.Marshal of a File back to the same value.
//
// An agent is validated in two steps, whether it was parsed or built in Go. [File.Validate], which
// Parse includes, finds faults that prevent a program from starting: missing, malformed or repeated
// settings. [Agent.Check] finds faults that make only this agent unavailable, such as an unknown
// protocol. Both return all [Faults] together.
//
// The comment of a setting states if nil and empty differ: without AllowedTools an agent has every
// tool, with an empty list it has none.
//
// [Parse] takes time and memory in proportion to the size of its input, which the caller limits.
// The depth of values and the number of values from aliases are limited.
package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Values of Provider.Protocol.
const (
	ProtocolAnthropic = "anthropic" // Anthropic Messages
	ProtocolOpenAI    = "openai"    // OpenAI Chat Completions
	ProtocolDemo      = "demo"      // built in: no key, no network
)

// Agent is one agent. ID, Model and Provider.Protocol are required.
//
// The zero value of AllowedTools offers every tool to the model: the built-in ones, those of the
// program, CustomTools and those of MCPServers. The zero value of PermissionMode, "default",
// executes calls of read-only tools: Read, Glob, Grep, TodoWrite, Skill, Task, and tools of the
// program that declare it. Other calls, such as those of Bash, Write, Edit and WebFetch, are
// denied, unless AllowedTools lists the tool or the program approves the call. An empty, non-nil
// AllowedTools is an agent without tools. A runtime in a program has file and command tools only if
// its configuration has a working directory.
type Agent struct {
	ID          string `json:"id"`             // ^[a-z0-9](-?[a-z0-9])*$, at most 63 characters, unique in its File
	Name        string `json:"name,omitempty"` // for display. Defaults to ID.
	Description string `json:"description,omitempty"`

	Model           string   `json:"model"`
	Provider        Provider `json:"provider,omitzero"`        // required
	MaxOutputTokens int      `json:"maxOutputTokens,omitzero"` // of one response; 0: the model's own default
	ContextWindow   int      `json:"contextWindow,omitzero"`   // in tokens; 0: the model's own
	Temperature     *float64 `json:"temperature,omitzero"`     // 0 to 2; nil: the model's own default
	Thinking        Thinking `json:"thinking,omitzero"`

	SystemPrompt     string `json:"systemPrompt,omitempty"`
	SystemPromptFile string `json:"systemPromptFile,omitempty"` // alternative to SystemPrompt; see [File.RelativeTo]
	MaxTurns         int    `json:"maxTurns,omitzero"`          // model calls of one run. Defaults to 10, see [Agent.TurnLimit].

	// OutputSchema is the JSON Schema of an object, at most 64 KiB. The text of the last message of a
	// run is then JSON that matches it. References stay within the schema. Subagents have none.
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`

	PermissionMode  string   `json:"permissionMode,omitempty"` // default, acceptEdits, bypassPermissions, plan, dontAsk or auto. Defaults to default.
	AllowedTools    []string `json:"allowedTools,omitzero"`    // tool names and patterns; nil: every tool, empty: none
	DisallowedTools []string `json:"disallowedTools,omitzero"` // take precedence over AllowedTools

	SettingSources     []string `json:"settingSources,omitzero"`     // of skills: user, project, local (no effect). nil: see [Agent.SkillSources]; empty: none
	ExtraUserSkillDirs []string `json:"extraUserSkillDirs,omitzero"` // see [File.RelativeTo]

	MCPServers  map[string]MCPServer `json:"mcpServers,omitzero"` // by a name that becomes part of tool names: letters, digits, - and single _
	Subagents   map[string]Subagent  `json:"subagents,omitzero"`
	Datasets    map[string]string    `json:"datasets,omitzero"` // id to description, part of the system prompt
	CustomTools []CustomTool         `json:"customTools,omitzero"`

	SkillArchives []SkillArchive `json:"skillArchives,omitzero"` // in addition to those that SettingSources finds

	Sandbox    Sandbox           `json:"sandbox,omitzero"`    // of commands and stdio servers
	CommandEnv map[string]Secret `json:"commandEnv,omitzero"` // variables of the commands of Bash, in addition to those of the runtime

	Limits AgentLimits `json:"limits,omitzero"` // replace those of the file

	Hub *Hub `json:"hub,omitzero"` // of an agent that a hub exported; the runtime ignores it
}

// Provider is the address of the model and the credentials for it.
type Provider struct {
	Protocol  string `json:"protocol"`            // one of the Protocol constants; another one makes the agent unavailable
	BaseURL   Secret `json:"baseUrl,omitempty"`   // prefix of /v1/messages (anthropic) or /chat/completions (openai). Defaults to the vendor's.
	APIKey    Secret `json:"apiKey,omitempty"`    // empty: the runtime's key for this protocol, if any
	AuthStyle string `json:"authStyle,omitempty"` // api_key (header x-api-key), bearer (header Authorization) or none. Defaults to api_key for anthropic, bearer for openai.

	APIKeyHeader string            `json:"apiKeyHeader,omitempty"` // header of the key: "api-key" for Azure. AuthStyle is then api_key.
	Headers      map[string]Secret `json:"headers,omitzero"`       // sent with every request
	Body         map[string]any    `json:"body,omitzero"`          // further fields of every request; a null removes a field
	StreamUsage  *bool             `json:"streamUsage,omitzero"`   // openai: false leaves out stream_options. Defaults to true.
}

// Thinking enables thinking before a response. The zero value disables it.
//
// Models with a budget need BudgetTokens. Models that choose the amount themselves need Type
// adaptive, and optionally Effort. The openai protocol sends only Effort.
type Thinking struct {
	BudgetTokens int    `json:"budgetTokens,omitzero"`
	Type         string `json:"type,omitempty"`   // "" or adaptive
	Effort       string `json:"effort,omitempty"` // a value of the provider, with adaptive. Defaults to the model's own.
}

// MCPServer is a server of the Model Context Protocol: a command (stdio) or an address (sse, http).
// Fields of the other kind must be empty. Args and URL can contain secrets and are not printed.
type MCPServer struct {
	Transport string            `json:"transport"` // stdio (a child process), sse or http (streamable HTTP); required
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitzero"`
	Env       map[string]Secret `json:"env,omitzero"`
	CWD       string            `json:"cwd,omitempty"`    // relative to that of the agent. Defaults to a private empty directory.
	Sandbox   Sandbox           `json:"sandbox,omitzero"` // stdio: in addition to that of the agent; without Mode
	URL       string            `json:"url,omitempty"`
	Headers   map[string]Secret `json:"headers,omitzero"` // sent with every request
	OAuth     OAuth             `json:"oauth,omitzero"`   // http: how to get the token that is sent with every request

	Timeout      time.Duration `json:"timeout,omitzero"`      // of one call, from its last notification of progress. Defaults to toolTimeout.
	Instructions bool          `json:"instructions,omitzero"` // the instructions of the server become part of the system prompt
}

// OAuth are credentials of a client for the grant client_credentials of OAuth 2.0. The MCP server
// names its authorization server, which has the origin of the MCP server or is Issuer. Issuer may
// name a token endpoint of another origin. Requests to other origins are rejected.
type OAuth struct {
	ClientID     string `json:"clientId"`     // required
	ClientSecret Secret `json:"clientSecret"` // required
	Issuer       string `json:"issuer,omitempty"`
	Scope        string `json:"scope,omitempty"`    // separated by spaces. Defaults to what the MCP server names.
	Audience     string `json:"audience,omitempty"` // sent in addition to resource, if the authorization server needs it
}

// Subagent is an agent that another agent can delegate tasks to. It has at most the permissions of
// that agent.
type Subagent struct {
	Description     string   `json:"description"`              // when to use it, for the model; required
	Prompt          string   `json:"prompt"`                   // its system prompt; required
	Tools           []string `json:"tools,omitzero"`           // like Agent.AllowedTools; nil: those of its agent, empty: none
	DisallowedTools []string `json:"disallowedTools,omitzero"` // in addition to those of its agent
	Model           string   `json:"model,omitempty"`          // Defaults to that of its agent.
	MCPServers      []string `json:"mcpServers,omitzero"`      // names in Agent.MCPServers; nil: all of them, empty: none
	Skills          []string `json:"skills,omitzero"`          // names; nil: all that its agent has, empty: none
	MaxTurns        int      `json:"maxTurns,omitzero"`
}

// CustomTool is the source of a tool in one .ts, .mts, .js or .mjs file: at a URL, with the hash of
// the file, or at a Path. A hub uses it for the tools of a deployment, which have a URL.
type CustomTool struct {
	Name     string `json:"name,omitempty"` // must be the name in the file; required with URL
	URL      string `json:"url,omitempty"`
	Hash     string `json:"hash,omitempty"`     // sha256:<64 hex digits>; required with URL, optional with Path
	FileName string `json:"fileName,omitempty"` // Defaults to the last element of URL. Ignored with Path.
	Path     string `json:"path,omitempty"`     // see [File.RelativeTo]
}

// SkillArchive is the source of a skill: a zip archive at a URL. All fields are required. A hub
// uses it for the skills of a deployment.
type SkillArchive struct {
	Name string `json:"name"` // of its directory: at most 100 letters, digits, dots, hyphens and underscores
	URL  string `json:"url"`
	Hash string `json:"hash"` // sha256:<64 hex digits> of the archive
}

// HubAccess is who may use an agent of a hub.
type HubAccess struct {
	Users    []string `json:"users,omitzero"`    // ids or names
	Groups   []string `json:"groups,omitzero"`   // of the identity provider
	Everyone bool     `json:"everyone,omitzero"` // of the organization
}

// Hub is what a hub stores of an agent in addition to the settings of the runtime.
type Hub struct {
	Title         string   `json:"title,omitempty"`
	TitleEN       string   `json:"titleEn,omitempty"`
	DescriptionEN string   `json:"descriptionEn,omitempty"`
	Icon          string   `json:"icon,omitempty"`
	IsDefault     bool     `json:"isDefault,omitempty"`
	Enabled       *bool    `json:"enabled,omitempty"`  // nil: true
	Skills        []string `json:"skills,omitzero"`    // names
	Tools         []string `json:"tools,omitzero"`     // names of built-in tools
	Provider      string   `json:"provider,omitempty"` // name of the provider, preferred among those with its address

	Deployment Deployment `json:"deployment,omitzero"`

	Approvers string `json:"approvers,omitempty"` // owner, maintainer or admin; "": owner

	Access *HubAccess `json:"access,omitzero"` // nil: the user who imports the agent, and admins
}

// TurnLimit returns MaxTurns or its default.
func (a *Agent) TurnLimit() int { return cmp.Or(a.MaxTurns, 10) }

// SkillSources returns a copy of SettingSources, or its default: user and project.
func (a *Agent) SkillSources() []string {
	if a.SettingSources == nil {
		return []string{"user", "project"}
	}

	return slices.Clone(a.SettingSources)
}

// File is a whole configuration file.
type File struct {
	Auth           Auth            `json:"auth,omitzero"`
	CWD            string          `json:"cwd,omitempty"`            // root of the file routes and of the built-in tools
	AgentHome      string          `json:"agentHome,omitempty"`      // directory of skills below cwd and the home directory
	StateDir       string          `json:"stateDir,omitempty"`       // directory of the sessions
	StoreOnRequest bool            `json:"storeOnRequest,omitempty"` // store a conversation only if the request of its run asks for it
	Bus            Secret          `json:"bus,omitempty"`            // URL of the bus of the replicas, see runtime/run/natsbus
	Limits         Limits          `json:"limits,omitzero"`
	Sandbox        SandboxSettings `json:"sandbox,omitzero"`
	Agents         []Agent         `json:"agents,omitzero"` // required in a file, but may be empty
}

// Auth lists the API keys of the runtime. Without keys, every caller has access.
type Auth struct {
	APIKeys []Secret `json:"apiKey,omitzero"` // in a file a list, or one string as for [Auth.SetKeys]
}

// SetKeys replaces the keys by those of a list that is separated by commas. An empty key is an
// error, because it may be a variable that is not set.
func (a *Auth) SetKeys(list string) error {
	file := File{Auth: Auth{APIKeys: splitKeys(list)}, Agents: []Agent{}}
	if faults, ok := errors.AsType[Faults](file.Validate()); ok {
		return fmt.Errorf("a key %s", faults[0].Message)
	}

	a.APIKeys = file.Auth.APIKeys
	return nil
}

func splitKeys(s string) []Secret {
	parts := strings.Split(s, ",")
	keys := make([]Secret, len(parts))
	for i, part := range parts {
		keys[i] = Secret(strings.TrimSpace(part))
	}

	return keys
}

// RelativeTo prefixes each relative path with dir, the directory of the file: CWD, StateDir, and an
// agent's SystemPromptFile, ExtraUserSkillDirs and paths of custom tools. The commands and
// arguments of MCP servers are unchanged. If dir is absolute, all paths are absolute.
func (f *File) RelativeTo(dir string) {
	join := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	join(&f.CWD)
	join(&f.StateDir)
	for i := range f.Agents {
		join(&f.Agents[i].SystemPromptFile)
		for j := range f.Agents[i].ExtraUserSkillDirs {
			join(&f.Agents[i].ExtraUserSkillDirs[j])
		}

		for j := range f.Agents[i].CustomTools {
			join(&f.Agents[i].CustomTools[j].Path)
		}
	}
}

// MarshalYAML encodes the same keys as JSON. Secrets are in clear text.
func (f File) MarshalYAML() (any, error) { return yamlOf(f) }

// MarshalYAML encodes the same keys as JSON. Secrets are in clear text.
func (a Agent) MarshalYAML() (any, error) { return yamlOf(a) }
