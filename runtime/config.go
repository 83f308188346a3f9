package runtime

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed93082962/agenthost/internal/httpapi"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/internal/engine"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/run"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Config configures a [Runtime]. All fields except Agents have defaults, with which agents have no
// access to files and commands of this machine.
type Config struct {
	// Agents are the hosted agents. The API lists them in this order.
	Agents []agent.Agent

	// APIKeys are the keys that clients may send in the header x-api-key. Any of them is accepted.
	// Without keys, /v1 is open to every client that can connect.
	APIKeys []string

	// CWD is the working directory of the agents. Agents read all files below it with Read, Glob and
	// Grep, unless their definition denies it, and every client that may call the API does. The tools
	// Write, Edit and Bash change what the definitions or Approve permit. Bash is not limited to CWD,
	// unless OpenSandbox confines it.
	//
	// Defaults to none: agents do not have these six tools, an agent whose AllowedTools names one is
	// unavailable, and the API serves an empty directory, which Close removes.
	CWD string

	// Limits of runs. Defaults to those of [agent.Limits].
	Limits agent.Limits

	// NewModel returns the model of a provider, which may be empty or have a protocol of the
	// caller's. If it returns nil without an error, or if NewModel is nil, the built-in adapter of
	// the provider's protocol is used. An error makes the agent unavailable.
	NewModel func(agent.Provider) (model.Model, error)

	// AllowUnavailable starts a runtime of which no agent is available. Its API lists the agents as
	// unavailable, and the log has the reasons. By default New returns the reasons as an error.
	AllowUnavailable bool

	// HTTPClient is used to call models. The default client ignores the proxy settings of the
	// environment and keeps many idle connections per host.
	HTTPClient *http.Client

	// HomeDir contains the user's skills, in <HomeDir>/<AgentHome>/skills. If it is empty, user
	// skills are read only from extraUserSkillDirs.
	HomeDir string

	// AgentHome is the name of the directory in HomeDir and CWD that contains the skills. Defaults
	// to ".agents".
	AgentHome string

	// ProtectedPaths are files and directories, such as the configuration file. No permission mode
	// except bypassPermissions and no rule without a pattern that names them approves writes to
	// them. What the Agents and the configuration of git name is always protected.
	ProtectedPaths []string

	// ChildEnv is the environment of child processes, as "NAME=value". Defaults to a PATH of the
	// usual system directories. It must not contain the keys of providers, because the model can
	// read it with Bash.
	ChildEnv []string

	// Tools are written in Go and available in addition to the built-in ones. The definition of an
	// agent selects the tools that it may use.
	Tools []tool.Tool

	// LoadTool loads a custom tool. It returns an error if the name or the hash differs from the
	// definition. The tools of all agents are loaded in parallel, within 10 s. If LoadTool is nil,
	// agents with custom tools are unavailable. See runtime/tool/js.
	LoadTool func(context.Context, agent.CustomTool) (tool.Tool, error)

	// LoadSkill returns the directory of a skill archive. The archives of all agents are loaded in
	// parallel, within 30 s. If LoadSkill is nil, agents with skill archives are unavailable. See
	// runtime/skill/archive.
	LoadSkill func(context.Context, agent.SkillArchive) (dir string, err error)

	// OpenMCP opens a server of the Model Context Protocol with the limits of its agent. The runtime
	// connects it when it starts, and closes it. If box is not nil, it confines the server if that is
	// a process. If OpenMCP is nil, such servers are reported as failed. See runtime/tool/mcp.
	OpenMCP func(name string, server agent.MCPServer, limits agent.Limits, box tool.Confiner) (tool.Server, error)

	// OpenSandbox opens the sandbox of the commands of an agent, or of one of its stdio servers, for
	// processes with the environment env. The policy has defaults and absolute paths, and its mode
	// is not off. The runtime closes the sandbox, which is nil if the system enforces nothing of the
	// policy. protected are absolute paths that the processes should not change in the working
	// directory, in addition to those that package permission names. An error makes the agent, or the
	// server, unavailable. If OpenSandbox is nil, agents with mode auto are not confined, and those
	// with mode required are unavailable. See runtime/tool/confine.
	OpenSandbox func(policy agent.Sandbox, protected, env []string) (tool.Confiner, wire.SandboxStatus, error)

	// Approve is called for a tool call that the agent's definition does not allow. It reports
	// whether the call may run. If Approve is nil, the call is denied. Approve is not called for
	// calls that disallowedTools denies or that the mode plan does not offer. The run waits for
	// Approve, which must return when ctx ends.
	Approve func(ctx context.Context, req ApprovalRequest) bool

	// Observe is called with each event of a run before the caller of the run receives it: init
	// first, [wire.Done] last. An event is valid until Observe returns. Observe is called
	// concurrently for different runs. More is not set.
	Observe func(RunInfo, wire.Event)

	// Sessions stores conversations. Defaults to that of [session.NewMemory].
	Sessions session.Store

	// UploadDir is the directory of the files that clients send before a run uses them. Agents should
	// not be able to read it. Defaults to a private one, which the first upload creates and Close
	// removes.
	UploadDir string

	// StoreOnRequest stores the conversation of a run only if its request has a sessionId or
	// "store": true. Defaults to false: it is stored unless the request has "store": false.
	StoreOnRequest bool

	// AllowedHosts are the host names under which clients may call a runtime without API keys, in
	// addition to localhost and addresses. A request with another Host is rejected on every
	// listener, because a web page can resolve a name of its own to the runtime's address. On a
	// loopback connection, the only addresses allowed are loopback addresses. "*" allows any name
	// and makes the runtime public. The list is not used if API keys are configured.
	AllowedHosts []string

	// Protocols are further protocols of runs, by the prefix of their paths, such as "/openai/v1".
	// Each function returns the handler of a runtime, which must not call the runtime before New
	// returns. The handler receives the paths without the prefix. Its requests pass the checks of
	// those of /v1, and may have the API key as "Authorization: Bearer". If the handler has a method
	// Fail(http.ResponseWriter, *http.Request, error), Fail responds to requests that do not pass. A
	// method Close() error is called by [Runtime.Close] after the end of the runs. See
	// runtime/protocol/openai. Defaults to none.
	Protocols map[string]func(*Runtime) http.Handler

	// Heartbeat is the time without an event after which a comment is sent on an event stream. A
	// negative value disables it. Defaults to 15 s.
	Heartbeat time.Duration

	// WriteTimeout is the time without progress after which the client of an event stream is
	// considered disconnected. A negative value disables it. Defaults to 30 s.
	WriteTimeout time.Duration

	// RunTTL is how long the state of an ended run remains available. Defaults to 5 minutes.
	RunTTL time.Duration

	// Bus connects the replicas of a runtime: each of them cancels the runs of all, and rejects the id
	// of a run that another one has. Defaults to none. The caller closes it after the runtime. See
	// runtime/run/natsbus.
	Bus run.Bus

	// MeterProvider receives the metrics of requests, runs, models and tools, which the README of
	// cmd/runtime lists. Defaults to none.
	MeterProvider metric.MeterProvider

	// TracerProvider receives the spans of requests, runs, calls of models and calls of tools, with
	// the attributes of the semantic conventions for generative AI. The trace of a request continues
	// that of its traceparent, and is continued by requests to models and to MCP servers. Defaults to
	// none.
	TracerProvider trace.TracerProvider

	// TraceContent adds the messages of models and the inputs and outputs of tools to the spans.
	TraceContent bool

	// Version is the version in health responses. Defaults to "devel".
	Version string

	// Logger defaults to a logger that discards all records.
	Logger *slog.Logger

	maxContent int // of tests. Defaults to that of package engine.
}

// ApprovalRequest is a tool call that the agent's definition does not allow.
type ApprovalRequest = engine.ApprovalRequest

// RunInfo identifies a run.
type RunInfo struct {
	AgentID   string
	RunID     string
	SessionID string
	Metadata  map[string]string // of the request
}

func (c Config) withDefaults() (Config, error) {
	var err error
	if c.CWD != "" {
		if c.CWD, err = filepath.Abs(c.CWD); err != nil {
			return c, fmt.Errorf("find the working directory: %w", err)
		}

		if info, err := os.Stat(c.CWD); err != nil {
			return c, fmt.Errorf("open the working directory: %w", err)
		} else if !info.IsDir() {
			return c, fmt.Errorf("open the working directory: %s is not a directory", c.CWD)
		}
	}

	if slices.Contains(c.APIKeys, "") {
		return c, errors.New("an API key is empty")
	}

	for prefix := range c.Protocols {
		if !strings.HasPrefix(prefix, "/") || strings.HasSuffix(prefix, "/") {
			return c, fmt.Errorf("the prefix %q of a protocol does not begin with a slash, or ends in one", prefix)
		}
	}

	for _, host := range c.AllowedHosts {
		if httpapi.HostName(host) == "" || strings.ContainsAny(host, "/@ ") {
			return c, fmt.Errorf("allowed host %q is not a host name", host)
		}
	}

	c.Limits = c.Limits.WithDefaults()
	c.Version = cmp.Or(c.Version, "devel")
	c.AgentHome = cmp.Or(c.AgentHome, ".agents")
	if c.ChildEnv == nil {
		c.ChildEnv = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	}

	if c.Sessions == nil {
		c.Sessions = session.NewMemory(session.MemoryConfig{TTL: c.Limits.SessionTTL, MaxBytes: min(256<<20, c.Limits.MaxMemoryBytes/2)})
	}

	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}

	return c, nil
}

// digests returns the SHA-256 of each key. Comparing digests takes the same time for any length.
func digests(keys []string) *[][sha256.Size]byte {
	list := make([][sha256.Size]byte, len(keys))
	for i, key := range keys {
		list[i] = sha256.Sum256([]byte(key))
	}

	return &list
}
