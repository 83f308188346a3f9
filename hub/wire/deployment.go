package wire

// States of a [Deployment]. Between them, it has the states deploying, starting, unhealthy,
// stopping and deleting.
const (
	StateNotDeployed = "not_deployed"
	StateRunning     = "running"
	StateStopped     = "stopped"
	StateFailed      = "failed" // it is started again each minute if it was ready before, otherwise by a user
)

// Deployment is the state of an agent on its runtime.
type Deployment struct {
	// The id of the agent in the runtime.
	AgentName     string `json:"agentName"`
	DeploymentKey string `json:"deploymentKey"`
	Desired       string `json:"desired"`
	State         string `json:"state"`
	Health        string `json:"health"`
	// Where the runtime listens. Absent if it does not run.
	RuntimeURL string `json:"runtimeUrl,omitempty"`
	// The key of the runtime.
	APIKey    string `json:"apiKey,omitempty"`
	PublicURL string `json:"publicUrl"`
	// The kind of the deployer, such as process.
	Backend string `json:"backend"`
	// The revision that was deployed last.
	Revision int64 `json:"revision,omitempty"`
	// The revision that new runs go to. Absent if none is ready.
	ServingRevision int64 `json:"servingRevision,omitempty"`
	// A hash of the deployed configuration. It cannot be compared between deployments.
	SpecHash string `json:"specHash,omitempty"`
	// The configuration of the agent differs from the deployed one.
	ConfigDrift  bool        `json:"configDrift"`
	RestartCount int         `json:"restartCount"`
	Conditions   []Condition `json:"conditions"`
	StartedAt    Time        `json:"startedAt,omitzero"`
	DeployedAt   Time        `json:"deployedAt,omitzero"`
	DeployedBy   string      `json:"deployedBy,omitempty"`
	// Why the agent does not run, with the last lines of the runtime's log.
	Error string `json:"error,omitempty"`
}

// Condition explains the state of a [Deployment].
type Condition struct {
	// applied, ready, Progressing, Routed, McpServersReady or restored.
	Type   string `json:"type"`
	Status bool   `json:"status"`
	// The error code of Routed, if it is false.
	Code Code `json:"code,omitempty"`
	// Why the status is false, or what a revision waits for.
	Message   string `json:"message,omitempty"`
	ChangedAt Time   `json:"changedAt"`
}

// Revision is one deploy of an agent.
type Revision struct {
	Revision   int64  `json:"revision"`
	DeployedAt Time   `json:"deployedAt"`
	DeployedBy string `json:"deployedBy"`
	// A hash of the deployed configuration. It cannot be compared between deployments.
	SpecHash string `json:"specHash"`
	// The agent has been ready.
	Ready bool `json:"ready"`
	// What the revision before it has otherwise: settings such as systemPrompt, and tool NAME
	// and skill NAME.
	Changes []string `json:"changes"`
}
