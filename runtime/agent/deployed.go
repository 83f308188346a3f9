package agent

// A deployer of processes and the runtime that it starts agree on these names. The process starts
// in a directory with both files, and serves when standard input has a line.
const (
	DeployedArg      = "agenthost-runtime" // the only argument of the process
	DeployedFile     = "agents.yaml"       // its configuration
	DeployedKeys     = "keys"              // its API keys, which are read again when they change
	DeployedListener = 3                   // the file descriptor of its listener
)
