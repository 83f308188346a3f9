package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/wire"
)

// Agents reads and changes the configurations of agents.
type Agents struct {
	Catalog[Agent, AgentRequest]
	Enabled Reader[Agent] // the agents that the caller may use
}

// Manifest returns the enabled agents with hashes of their content.
func (a Agents) Manifest(ctx context.Context) (Manifest, error) {
	return get[Manifest](ctx, a.c, "/api/v1/agents/manifest", nil)
}

// Detail returns a deployed agent as its runtime describes it.
func (a Agents) Detail(ctx context.Context, name string) (wire.AgentDetail, error) {
	return get[wire.AgentDetail](ctx, a.c, "/api/v1/agents/"+segment(name)+"/detail", nil)
}

// Export returns an agent as a configuration file of the runtime, in YAML.
func (a Agents) Export(ctx context.Context, name string) ([]byte, error) {
	return a.c.text(ctx, a.path+"/"+segment(name)+"/export", nil, yamlMedia)
}

// Import creates an agent from a configuration file of the runtime with one agent. With replace, an
// agent of the same name is replaced.
func (a Agents) Import(ctx context.Context, file string, replace bool) (Agent, error) {
	query := url.Values{}
	if replace {
		query.Set("replace", "true")
	}

	return decode[Agent](ctx, a.c, request{
		method: http.MethodPost, path: withQuery(a.path+"/import", query), accept: jsonMedia, media: yamlMedia,
		body: func() io.Reader { return strings.NewReader(file) }, length: int64(len(file)), header: http.Header{},
	})
}

const yamlMedia = "application/yaml"

// Mounted yields the names of the components of a kind, tools, skills or mcps, that an agent mounts.
func (a Agents) Mounted(ctx context.Context, name, kind string) iter.Seq2[string, error] {
	return whole[string](ctx, a.c, a.path+"/"+segment(name)+"/"+segment(kind))
}

// Mount replaces the components of a kind, tools, skills or mcps, that an agent mounts, as
// [Collection.Update] does.
func (a Agents) Mount(ctx context.Context, name, kind string, version int64, items []string) error {
	return mount(ctx, a.c, a.path+"/"+segment(name)+"/"+segment(kind), version, items)
}

// Knowledge yields the knowledge sets that an agent mounts.
func (a Agents) Knowledge(ctx context.Context, name string) iter.Seq2[KnowledgeRef, error] {
	return whole[KnowledgeRef](ctx, a.c, a.path+"/"+segment(name)+"/knowledge")
}

// MountKnowledge replaces the knowledge sets that an agent mounts.
func (a Agents) MountKnowledge(ctx context.Context, name string, version int64, items []KnowledgeRef) error {
	return mount(ctx, a.c, a.path+"/"+segment(name)+"/knowledge", version, items)
}

func mount[T any](ctx context.Context, c *Client, path string, version int64, items []T) error {
	if items == nil {
		items = []T{}
	}

	r, err := jsonRequest(http.MethodPut, path, map[string][]T{"items": items})
	if err != nil {
		return err
	}

	r.match(version)
	_, err = decode[page[[]T]](ctx, c, r)
	return err
}

// whole requests a list that has no pages. Callers change and replace it, so that no element is
// omitted.
func whole[T any](ctx context.Context, c *Client, path string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		p, err := get[page[[]T]](ctx, c, path, nil)
		if err != nil {
			var none T
			yield(none, err)
			return
		}

		for _, item := range p.Items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// Agent is the configuration of an agent.
type Agent struct {
	ID string `json:"id"`
	// The id of the agent in the runtime. Unique in the organization.
	Name          string `json:"name"`
	Title         string `json:"title"`
	TitleEn       string `json:"titleEn,omitempty"`
	Description   string `json:"description"`
	DescriptionEn string `json:"descriptionEn,omitempty"`
	Icon          string `json:"icon,omitempty"`
	Enabled       bool   `json:"enabled"`
	// Of at most one agent of the organization.
	IsDefault  bool   `json:"isDefault"`
	ProviderID string `json:"providerId"`
	Model      string `json:"model"`
	// Empty for members, as are the prompts of subagents.
	SystemPrompt   string `json:"systemPrompt"`
	MaxTurns       int64  `json:"maxTurns"`
	PermissionMode string `json:"permissionMode"`
	// Names and patterns. null: every tool. An empty list: none.
	AllowedTools    []string `json:"allowedTools"`
	DisallowedTools []string `json:"disallowedTools"`
	Sandbox         *Sandbox `json:"sandbox,omitempty"`
	// Of one response. Absent: that of the model in the provider, or the model's own.
	MaxOutputTokens int64 `json:"maxOutputTokens,omitempty"`
	// In tokens. Absent: as maxOutputTokens.
	ContextWindow int64 `json:"contextWindow,omitempty"`
	// Absent: the model's own default.
	Temperature *float64  `json:"temperature,omitempty"`
	Thinking    *Thinking `json:"thinking,omitempty"`
	// Further directories of skills on the machine of the runtime.
	ExtraUserSkillDirs []string `json:"extraUserSkillDirs,omitzero"`
	// Variables of the commands of Bash, not for secrets. Absent for members.
	CommandEnv map[string]string `json:"commandEnv,omitzero"`
	Limits     *AgentLimits      `json:"limits,omitempty"`
	Access     *AgentAccess      `json:"access,omitempty"`
	// Absent fields are those of the settings of the hub.
	Deployment *AgentDeployment `json:"deployment,omitempty"`
	// Names of built-in and custom tools.
	Tools  []string `json:"tools"`
	Skills []string `json:"skills"`
	// Names of MCP servers.
	MCPs           []string            `json:"mcps"`
	Knowledge      []KnowledgeRef      `json:"knowledge"`
	Subagents      map[string]Subagent `json:"subagents"`
	SettingSources []string            `json:"settingSources"`
	// Of the content of the agent and of what it uses, without secrets. The same content has the
	// same hash.
	ContentHash string    `json:"contentHash"`
	Version     int64     `json:"version"`
	CreatedAt   time.Time `json:"createdAt"`
	UpdatedAt   time.Time `json:"updatedAt"`
}

// AgentRequest creates or replaces an agent. Absent fields have their defaults.
type AgentRequest struct {
	Name string `json:"name"`
	// Defaults to the name.
	Title           string         `json:"title,omitempty"`
	TitleEn         string         `json:"titleEn,omitempty"`
	Description     string         `json:"description,omitempty"`
	DescriptionEn   string         `json:"descriptionEn,omitempty"`
	Icon            string         `json:"icon,omitempty"`
	Enabled         *bool          `json:"enabled,omitempty"`
	IsDefault       *bool          `json:"isDefault,omitempty"`
	ProviderID      string         `json:"providerId"`
	Model           string         `json:"model"`
	SystemPrompt    string         `json:"systemPrompt,omitempty"`
	MaxTurns        *int64         `json:"maxTurns,omitempty"`
	PermissionMode  string         `json:"permissionMode,omitempty"`
	AllowedTools    []string       `json:"allowedTools,omitzero"`
	DisallowedTools []string       `json:"disallowedTools,omitzero"`
	Tools           []string       `json:"tools,omitzero"`
	Skills          []string       `json:"skills,omitzero"`
	MCPs            []string       `json:"mcps,omitzero"`
	Knowledge       []KnowledgeRef `json:"knowledge,omitzero"`
	Sandbox         *Sandbox       `json:"sandbox,omitempty"`
	// Of one response. 0: that of the model in the provider, or the model's own.
	MaxOutputTokens *int64 `json:"maxOutputTokens,omitempty"`
	// In tokens. 0: as maxOutputTokens.
	ContextWindow *int64 `json:"contextWindow,omitempty"`
	// The default is the model's own.
	Temperature *float64  `json:"temperature,omitempty"`
	Thinking    *Thinking `json:"thinking,omitempty"`
	// Further directories of skills on the machine of the runtime. Absolute paths.
	ExtraUserSkillDirs []string `json:"extraUserSkillDirs,omitzero"`
	// Variables of the commands of Bash, not for secrets: administrators see them.
	CommandEnv map[string]string   `json:"commandEnv,omitzero"`
	Limits     *AgentLimits        `json:"limits,omitempty"`
	Access     *AgentAccess        `json:"access,omitempty"`
	Deployment *AgentDeployment    `json:"deployment,omitempty"`
	Subagents  map[string]Subagent `json:"subagents,omitzero"`
	// Defaults to user and project.
	SettingSources []string `json:"settingSources,omitzero"`
}

// Thinking is how much the model thinks before it responds.
type Thinking struct {
	// For models with a budget.
	BudgetTokens int64 `json:"budgetTokens,omitempty"`
	// The model chooses the amount.
	Type string `json:"type,omitempty"`
	// With adaptive.
	Effort string `json:"effort,omitempty"`
}

// AgentAccess restricts who may use an agent.
type AgentAccess struct {
	// Ids, or usernames in any letter case.
	Users []string `json:"users,omitzero"`
	// Groups of the identity provider.
	Groups []string `json:"groups,omitzero"`
	// All users of the organization. Defaults to false if there are users or groups.
	Everyone *bool `json:"everyone,omitempty"`
}

// AgentLimits bound the runs of an agent.
type AgentLimits struct {
	// Of a whole run. Such as 90s.
	RunTimeout string `json:"runTimeout,omitempty"`
	// Without a byte from the model. Such as 90s.
	LLMIdleTimeout string `json:"llmIdleTimeout,omitempty"`
	// Of one tool call. Such as 90s.
	ToolTimeout string `json:"toolTimeout,omitempty"`
	// Of connecting to an MCP server. Such as 90s.
	MCPConnectTimeout string `json:"mcpConnectTimeout,omitempty"`
	// Of the first connection of a stdio server, which may install packages. Such as 90s.
	MCPStartTimeout string `json:"mcpStartTimeout,omitempty"`
	// Of one tool call, to the model.
	MaxToolOutputBytes int64 `json:"maxToolOutputBytes,omitempty"`
	// Of one response of the model.
	MaxResponseBytes int64 `json:"maxResponseBytes,omitempty"`
}

// AgentDeployment is what each runtime of a deployed agent may use. Zero fields are those of the
// settings of the hub.
type AgentDeployment struct {
	// A whole number with Mi or Gi, such as 512Mi.
	Memory string `json:"memory,omitempty"`
	// Thousandths of a processor, such as 500m.
	CPU string `json:"cpu,omitempty"`
	// With threads. At least 16.
	Processes int64 `json:"processes,omitempty"`
	// Several require a deployer on Kubernetes.
	Replicas int64 `json:"replicas,omitempty"`
}

// Sandbox is what the commands of an agent may access.
type Sandbox struct {
	// Files and directories that may be read and executed, relative to the working directory.
	Read []string `json:"read,omitzero"`
	// Files and directories that may be changed too, relative to the working directory.
	Write []string `json:"write,omitzero"`
	// proxy, the default: a proxy that connects to public addresses only.
	Network string `json:"network,omitempty"`
	// The only hosts of the proxy: example.com, *.example.com or example.com:8443. Defaults
	// to all public hosts.
	Domains []string `json:"domains,omitzero"`
	// auto, the default: confined as far as the kernel can. required: the agent is unavailable
	// where the kernel cannot confine it.
	Mode string `json:"mode,omitempty"`
}

// Subagent is an agent that the agent can call.
type Subagent struct {
	Description string `json:"description"`
	// Required. Empty for members, who do not see prompts.
	Prompt          string   `json:"prompt"`
	Tools           []string `json:"tools,omitzero"`
	DisallowedTools []string `json:"disallowedTools,omitzero"`
	Model           string   `json:"model,omitempty"`
	MCPServers      []string `json:"mcpServers,omitzero"`
	Skills          []string `json:"skills,omitzero"`
	MaxTurns        int64    `json:"maxTurns,omitempty"`
}

// KnowledgeRef mounts a knowledge set.
type KnowledgeRef struct {
	Name string `json:"name"`
	// Replaces that of the knowledge set for this agent.
	Description string `json:"description,omitempty"`
}

// Manifest lists the enabled agents with hashes of their content.
type Manifest struct {
	// Changes if one of the agents changes.
	ContentHash string `json:"contentHash"`
	// The enabled agents, sorted by name.
	Agents []ManifestAgent `json:"agents"`
}

// ManifestAgent is part of a [Manifest].
type ManifestAgent struct {
	// The id of the agent in the runtime. Unique in the organization.
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Icon        string `json:"icon,omitempty"`
	IsDefault   bool   `json:"isDefault"`
	// Of the content of the agent and of what it uses, without secrets. The same content has the
	// same hash.
	ContentHash string    `json:"contentHash"`
	UpdatedAt   time.Time `json:"updatedAt"`
}
