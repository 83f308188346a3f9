package wire

import "github.com/seed93082962/agenthost/runtime/agent"

// MCP is an MCP server that agents can use. In responses, *** is a stored secret.
type MCP struct {
	Component

	// stdio: a command. sse, http: an address with server-sent events or streamable HTTP.
	Transport string            `json:"transport"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitzero"`
	Env       map[string]string `json:"env,omitzero"`
	// The directory in which a stdio server starts, relative to the working directory of the agent.
	// If absent, a private empty directory.
	CWD     string            `json:"cwd,omitempty"`
	Sandbox agent.Sandbox     `json:"sandbox,omitzero"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitzero"`
	// How a server with transport http is sent a token.
	OAuth OAuth `json:"oauth,omitzero"`
	// Of one call, from the last progress that the server reports. Absent: toolTimeout of the agent.
	Timeout string `json:"timeout,omitempty"`
	// The instructions of the server become part of the system prompt.
	Instructions bool `json:"instructions,omitempty"`
	Enabled      bool `json:"enabled"`
}

// OAuth has the credentials of a client (OAuth 2.0 client credentials) for an MCP server.
type OAuth struct {
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret"`
	// The address of the authorization server if it has another origin.
	Issuer string `json:"issuer,omitempty"`
	// Separated by spaces. The default is what the MCP server names.
	Scope string `json:"scope,omitempty"`
	// Sent in addition to resource, if the authorization server needs it.
	Audience string `json:"audience,omitempty"`
}

// MCPRequest creates or replaces an MCP server. In secrets, *** is the stored value.
type MCPRequest struct {
	// Of an existing server, "" or its name.
	Name string `json:"name"`
	// The default is the name.
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// stdio requires command, the others url; the fields of the other kind must be empty.
	Transport string            `json:"transport"`
	Command   string            `json:"command,omitempty"`
	Args      []string          `json:"args,omitzero"`
	Env       map[string]string `json:"env,omitzero"`
	// The directory in which a stdio server starts, relative to the working directory of the agent.
	// The default is a private empty directory.
	CWD     string            `json:"cwd,omitempty"`
	Sandbox agent.Sandbox     `json:"sandbox,omitzero"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitzero"`
	OAuth   OAuth             `json:"oauth,omitzero"`
	// Of one call, from the last progress that the server reports, such as 90s. The default is
	// toolTimeout of the agent.
	Timeout string `json:"timeout,omitempty"`
	// The instructions of the server become part of the system prompt.
	Instructions bool `json:"instructions,omitempty"`
	// The default is true.
	Enabled *bool `json:"enabled,omitempty"`
}
