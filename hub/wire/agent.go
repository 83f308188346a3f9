package wire

import (
	"encoding/json"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// Agent is the configuration of an agent. It contains no secret.
type Agent struct {
	ID string `json:"id"`
	// The id of the agent in the runtime. Unique in the organization.
	Name          string `json:"name"`
	Title         string `json:"title"`
	TitleEN       string `json:"titleEn,omitempty"`
	DescriptionEN string `json:"descriptionEn,omitempty"`
	Icon          string `json:"icon,omitempty"`
	Enabled       bool   `json:"enabled"`
	// Of at most one agent of the organization.
	IsDefault  bool   `json:"isDefault"`
	ProviderID string `json:"providerId"`
	Model      string `json:"model"`
	// Of one response. Absent: that of the model in the provider, or the model's own.
	MaxOutputTokens int `json:"maxOutputTokens,omitzero"`
	// In tokens. Absent: as maxOutputTokens.
	ContextWindow int `json:"contextWindow,omitzero"`
	// Absent: the model's own default.
	Temperature *float64       `json:"temperature,omitzero"`
	Thinking    agent.Thinking `json:"thinking,omitzero"`
	MaxTurns    int            `json:"maxTurns"`
	// The JSON Schema of the output of runs, or absent.
	OutputSchema    json.RawMessage `json:"outputSchema,omitempty"`
	PermissionMode  string          `json:"permissionMode"`
	DisallowedTools []string        `json:"disallowedTools"`
	SettingSources  []string        `json:"settingSources"`
	// Further directories of skills on the machine of the runtime.
	ExtraUserSkillDirs []string                  `json:"extraUserSkillDirs,omitzero"`
	Subagents          map[string]agent.Subagent `json:"subagents"`
	Sandbox            agent.Sandbox             `json:"sandbox,omitzero"`
	Limits             agent.AgentLimits         `json:"limits,omitzero"`
	// Names of built-in and custom tools.
	Tools  []string `json:"tools"`
	Skills []string `json:"skills"`
	// Names of MCP servers.
	MCPs      []string       `json:"mcps"`
	Knowledge []KnowledgeRef `json:"knowledge"`
	// Absent for members.
	Access AgentAccess `json:"access,omitzero"`
	// Absent fields are those of the settings of the hub.
	Deployment agent.Deployment `json:"deployment,omitzero"`
	// Who may approve or reject calls that wait: owner of the chat, maintainer or admin, with a role
	// also those of a higher one.
	Approvers string `json:"approvers,omitzero"`
	// Of what the caller sees of the agent and of what it uses, without secrets. The same content has
	// the same hash.
	ContentHash string `json:"contentHash"`
	Version     int64  `json:"version"`
	CreatedAt   Time   `json:"createdAt"`
	UpdatedAt   Time   `json:"updatedAt"`
	Description string `json:"description"`
	// Empty for members, as are the prompts of subagents.
	SystemPrompt string `json:"systemPrompt"`
	// Names and patterns. null: every tool. An empty list: none.
	AllowedTools []string `json:"allowedTools"`
	// Variables of the commands of Bash, not for secrets. Absent for members.
	CommandEnv map[string]string `json:"commandEnv,omitzero"`
}

// CurrentVersion returns the version, which is the ETag of a response.
func (a Agent) CurrentVersion() int64 { return a.Version }

// AgentRequest creates or replaces an agent. Absent fields have their defaults. Of an existing
// agent, bindings that are nil, and absent access and approvers, are unchanged.
type AgentRequest struct {
	// Of an existing agent, "" or its name.
	Name string `json:"name"`
	// The default is the name.
	Title         string `json:"title,omitempty"`
	TitleEN       string `json:"titleEn,omitempty"`
	Description   string `json:"description,omitempty"`
	DescriptionEN string `json:"descriptionEn,omitempty"`
	Icon          string `json:"icon,omitempty"`
	// The default is true.
	Enabled      *bool  `json:"enabled,omitempty"`
	IsDefault    bool   `json:"isDefault,omitempty"`
	ProviderID   string `json:"providerId"`
	Model        string `json:"model"`
	SystemPrompt string `json:"systemPrompt,omitempty"`
	// The default is 10.
	MaxTurns       *int   `json:"maxTurns,omitempty"`
	PermissionMode string `json:"permissionMode,omitempty"`
	// Names and patterns. nil: every tool. An empty list: none.
	AllowedTools    []string       `json:"allowedTools,omitzero"`
	DisallowedTools []string       `json:"disallowedTools,omitzero"`
	Tools           []string       `json:"tools,omitzero"`
	Skills          []string       `json:"skills,omitzero"`
	MCPs            []string       `json:"mcps,omitzero"`
	Knowledge       []KnowledgeRef `json:"knowledge,omitzero"`
	Sandbox         agent.Sandbox  `json:"sandbox,omitzero"`
	// Of one response. 0: that of the model in the provider, or the model's own.
	MaxOutputTokens int `json:"maxOutputTokens,omitzero"`
	// In tokens. 0: as maxOutputTokens.
	ContextWindow int `json:"contextWindow,omitzero"`
	// The default is the model's own.
	Temperature *float64       `json:"temperature,omitzero"`
	Thinking    agent.Thinking `json:"thinking,omitzero"`
	// The JSON Schema of an object, at most 64 KiB: answers are then JSON that matches it.
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	// Further directories of skills on the machine of the runtime. Absolute paths.
	ExtraUserSkillDirs []string `json:"extraUserSkillDirs,omitzero"`
	// Variables of the commands of Bash, not for secrets: administrators see them.
	CommandEnv map[string]string `json:"commandEnv,omitzero"`
	Limits     agent.AgentLimits `json:"limits,omitzero"`
	Access     AgentAccess       `json:"access,omitzero"`
	Deployment agent.Deployment  `json:"deployment,omitzero"`
	// owner, maintainer or admin. The default is owner.
	Approvers string                    `json:"approvers,omitempty"`
	Subagents map[string]agent.Subagent `json:"subagents,omitzero"`
	// The default is user and project.
	SettingSources []string `json:"settingSources,omitzero"`
}

// AgentAccess is who may use an agent. For other members, the agent does not exist. Users who may
// change agents have access to all of them. An access that names nobody is that of nobody.
type AgentAccess struct {
	// Ids, or usernames in any letter case.
	Users []string `json:"users"`
	// Groups of the identity provider.
	Groups []string `json:"groups"`
	// All users of the organization.
	Everyone bool `json:"everyone"`
}

// IsZero reports whether nothing is said about the access.
func (a AgentAccess) IsZero() bool { return !a.Everyone && a.Users == nil && a.Groups == nil }

// Manifest lists the enabled agents with hashes, so that a client reads only what changed.
type Manifest struct {
	// Changes if one of the agents changes.
	ContentHash string `json:"contentHash"`
	// Sorted by name.
	Agents []ManifestAgent `json:"agents"`
}

// ManifestAgent is an agent in a [Manifest].
type ManifestAgent struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Icon        string `json:"icon,omitempty"`
	IsDefault   bool   `json:"isDefault"`
	ContentHash string `json:"contentHash"`
	UpdatedAt   Time   `json:"updatedAt"`
}
