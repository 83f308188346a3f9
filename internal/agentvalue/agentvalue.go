// Package agentvalue has the values of strings in the definition of an agent, whose types are in
// runtime/agent and state them, and the names on which a deployer and a runtime agree.
package agentvalue

// Values of Provider.AuthStyle.
const (
	AuthAPIKey = "api_key" // header x-api-key
	AuthBearer = "bearer"  // header Authorization
	AuthNone   = "none"
)

// ThinkingAdaptive is a value of Thinking.Type.
const ThinkingAdaptive = "adaptive"

// Values of MCPServer.Transport.
const (
	TransportStdio = "stdio" // a child process
	TransportSSE   = "sse"
	TransportHTTP  = "http" // streamable HTTP
)

// Values of Sandbox.Mode.
const (
	SandboxAuto     = "auto"     // confined as far as the kernel can, which the detail of the agent states
	SandboxRequired = "required" // the agent is unavailable where the kernel creates no namespaces
	SandboxOff      = "off"
)

// Values of Sandbox.Network.
const (
	NetworkProxy = "proxy" // an HTTP proxy that connects to public addresses only
	NetworkNone  = "none"
	NetworkAll   = "all"
)

// A deployer of processes and the runtime that it starts agree on these names. The process starts
// in a directory with both files, and serves when standard input has a line.
const (
	DeployedArg      = "agenthost-runtime" // the only argument of the process
	DeployedFile     = "agents.yaml"       // its configuration
	DeployedKeys     = "keys"              // its API keys, which are read again when they change
	DeployedListener = 3                   // the file descriptor of its listener
)
