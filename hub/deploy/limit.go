package deploy

import "github.com/seed93082962/agenthost/runtime/agent"

// Bounds are the most that the deployment settings of agents may have. A zero field is unbounded.
type Bounds = agent.Deployment
