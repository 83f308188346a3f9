package client

import (
	"github.com/seed93082962/agenthost/hub/wire"
)

// Scenes reads and changes the prompts that users are offered.
type Scenes struct {
	Catalog[wire.Scene, wire.SceneRequest]
	Enabled Reader[wire.Scene] // the scenes of agents that the caller may use
}

// MCPs reads and changes the MCP servers that agents mount.
type MCPs struct {
	Catalog[wire.MCP, wire.MCPRequest]
}

// KnowledgeSets reads and changes the knowledge sets that agents mount.
type KnowledgeSets struct {
	Catalog[wire.Knowledge, wire.KnowledgeRequest]
}
