package client

import (
	"time"

	"github.com/seed93082962/agenthost/hub/wire"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Scenes reads and changes the prompts that users are offered.
type Scenes struct {
	Catalog[wire.Scene, wire.SceneRequest]
	Enabled Reader[wire.Scene] // the scenes of agents that the caller may use
}

// MCPs reads and changes the MCP servers that agents mount.
type MCPs struct{ Catalog[MCP, MCPRequest] }

// KnowledgeSets reads and changes the knowledge sets that agents mount.
type KnowledgeSets struct {
	Catalog[wire.Knowledge, wire.KnowledgeRequest]
}

// ServerOAuth has the credentials of a client for an MCP server with transport http.
type ServerOAuth struct {
	ClientID string `json:"clientId,omitempty"`
	// In responses it is ***, which in a request is the stored secret.
	ClientSecret string `json:"clientSecret,omitempty"`
	// The address of the authorization server if it has another origin.
	Issuer string `json:"issuer,omitempty"`
}

// MCP is an MCP server that agents can mount.
type MCP struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	// A command, or an address with server-sent events or streamable HTTP.
	Transport string            `json:"transport"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitzero"`
	Env       map[string]string `json:"env,omitzero"`
	// The directory in which a stdio server starts, relative to the working directory of the
	// agent. If absent, a private empty directory.
	CWD     string            `json:"cwd,omitempty"`
	Sandbox agent.Sandbox     `json:"sandbox,omitzero"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitzero"`
	// How a server with transport http is sent a token.
	OAuth *ServerOAuth `json:"oauth,omitempty"`
	// Of one call, from the last progress that the server reports. Absent: toolTimeout of the
	// agent.
	Timeout string `json:"timeout,omitempty"`
	// The instructions of the server become part of the system prompt.
	Instructions *bool     `json:"instructions,omitempty"`
	Enabled      bool      `json:"enabled"`
	Version      int64     `json:"version"`
	CreatedAt    time.Time `json:"createdAt"`
	UpdatedAt    time.Time `json:"updatedAt"`
}

// MCPRequest creates or replaces an MCP server.
type MCPRequest struct {
	Name string `json:"name"`
	// Defaults to the name.
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// stdio requires command, the others url; the fields of the other kind must be empty.
	Transport string   `json:"transport"`
	Command   string   `json:"command,omitempty"`
	Args      []string `json:"args,omitzero"`
	// *** is the stored value.
	Env map[string]string `json:"env,omitzero"`
	// The directory in which a stdio server starts, relative to the working directory of the
	// agent. Defaults to a private empty directory.
	CWD     string        `json:"cwd,omitempty"`
	Sandbox agent.Sandbox `json:"sandbox,omitzero"`
	URL     string        `json:"url,omitempty"`
	// *** is the stored value.
	Headers map[string]string `json:"headers,omitzero"`
	// Credentials of a client (OAuth 2.0 client credentials) for a server with transport http.
	// *** is the stored secret.
	OAuth *ServerOAuth `json:"oauth,omitempty"`
	// Of one call, from the last progress that the server reports. Defaults to toolTimeout of
	// the agent.
	Timeout string `json:"timeout,omitempty"`
	// The instructions of the server become part of the system prompt.
	Instructions *bool `json:"instructions,omitempty"`
	Enabled      *bool `json:"enabled,omitempty"`
}
