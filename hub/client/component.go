package client

import (
	"github.com/seed93082962/agenthost/hub/wire"
)

// Scenes reads and changes the prompts that users are offered.
type Scenes struct {
	Catalog[wire.Scene, wire.SceneRequest]
	Enabled reader[wire.Scene] // List and Get of those of agents that the caller may use
}
