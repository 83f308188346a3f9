package wire

import "encoding/json"

// AgentSummary is one element of GET /v1/agents.
type AgentSummary struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Model       string `json:"model"`
	Status      string `json:"status"`    // ready or unavailable
	ToolCount   int    `json:"toolCount"` // without tools of MCP servers
	Description string `json:"description,omitempty"`
}

// AgentDetail is the body of GET /v1/agents/:agentId. An optional field that is not configured is
// absent, never null. A field that is configured as empty is present and empty.
type AgentDetail struct {
	ID              string `json:"id"`
	Name            string `json:"name"`
	Model           string `json:"model"`
	Status          string `json:"status"` // ready or unavailable
	MaxTurns        int    `json:"maxTurns"`
	HasSystemPrompt bool   `json:"hasSystemPrompt"`

	PermissionMode     string                     `json:"permissionMode,omitempty"`
	AllowedTools       []string                   `json:"allowedTools,omitzero"`
	DisallowedTools    []string                   `json:"disallowedTools,omitzero"`
	AvailableSkills    []SkillSummary             `json:"availableSkills,omitempty"`
	SettingSources     []string                   `json:"settingSources,omitzero"`
	ExtraUserSkillDirs []string                   `json:"extraUserSkillDirs,omitzero"`
	MCPServers         map[string]MCPServer       `json:"mcpServers,omitzero"`
	Subagents          map[string]SubagentSummary `json:"subagents,omitzero"`
	Datasets           map[string]string          `json:"datasets,omitzero"`
	OutputSchema       json.RawMessage            `json:"outputSchema,omitempty"`

	Sandbox SandboxStatus `json:"sandbox,omitzero"` // absent from a runtime of an earlier version
}

// SandboxStatus states how the commands and the stdio servers of an agent are confined.
type SandboxStatus struct {
	Mode    string `json:"mode"`             // auto, required, off or partial
	Files   bool   `json:"files"`            // access to files is restricted
	Network bool   `json:"network"`          // connections are restricted
	Reason  string `json:"reason,omitempty"` // why something is not restricted
}

// SkillSummary is a skill that was found at the start of the runtime.
type SkillSummary struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Source      string `json:"source"`   // user or project
	Location    string `json:"location"` // absolute path of its SKILL.md
}

// MCPServer is the address of a server. The values of Env and Headers are redacted. Args and URL
// are not, and may contain secrets: do not log or display them.
type MCPServer struct {
	Transport string            `json:"transport"` // stdio, sse or http
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitzero"`
	Env       map[string]string `json:"env,omitzero"`
	URL       string            `json:"url,omitempty"`
	Headers   map[string]string `json:"headers,omitzero"`

	// Status is the state of the connection at the time of the request: pending, connected or failed.
	// It is absent if the agent is unavailable.
	Status string `json:"status,omitempty"`
	Error  string `json:"error,omitempty"` // why the last attempt to connect a failed server failed
}

// SubagentSummary is the public part of a subagent.
type SubagentSummary struct {
	Description string `json:"description"`
}
