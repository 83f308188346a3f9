package runtime

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/model"
	"github.com/seed93082962/agenthost/runtime/session"
	"github.com/seed93082962/agenthost/runtime/tool"
	"github.com/seed93082962/agenthost/runtime/wire"
)

// Config of a [Runtime]. Everything but Agents has a default.
type Config struct {
	// Agents that are hosted, in the order in which they are listed.
	Agents []agent.Agent

	// APIKeys that callers may use in the header x-api-key; any of them is accepted. Without
	// one /v1 is open to everybody who can reach it.
	APIKeys []string

	// CWD is the working directory of the agents. Defaults to the current directory.
	CWD string

	// Limits of runs. Defaults to those of [agent.Limits].
	Limits agent.Limits

	// Models makes the model of a provider. It may answer nil without an error for a provider
	// that it leaves to the built-in adapters, as a nil Models does for all. An error makes
	// the agent unavailable.
	Models func(agent.Provider) (model.Model, error)

	// HTTPClient is used for calls of models. Defaults to one that takes no proxy from the
	// environment and keeps many connections to one host.
	HTTPClient *http.Client

	// HomeDir is where skills of the user are looked for, in <HomeDir>/<AgentHome>/skills.
	// Empty: there are none but those of extraUserSkillDirs.
	HomeDir string

	// AgentHome is the folder in HomeDir and CWD that holds what agents bring along. Defaults
	// to ".agents".
	AgentHome string

	// ChildEnv is the environment of child processes, as "NAME=value". Defaults to a PATH of the
	// system's usual directories. Keys of providers have no place in it: what an agent's Bash
	// prints, its model reads.
	ChildEnv []string

	// Tools written in Go, beside the built-in ones. Which agent may use which is up to its
	// definition.
	Tools []tool.Tool

	// CustomTools loads a tool from a file, and fails if its name or hash is not what the
	// definition says. The tools of all agents are loaded side by side and have 10 s. Without
	// it an agent that has custom tools is unavailable. See runtime/tool/js.
	CustomTools func(context.Context, agent.CustomTool) (tool.Tool, error)

	// MCP opens a server of the Model Context Protocol, which the runtime closes. Without it
	// such servers are told as failed. See runtime/tool/mcp.
	MCP func(name string, server agent.MCPServer) (tool.Server, error)

	// Approve is asked before a tool call is refused that the agent's definition does not
	// allow: true lets it run. What disallowedTools denies, and what the mode plan leaves out,
	// is refused without asking. It returns when ctx ends. The run waits for it.
	Approve func(ctx context.Context, call Approval) bool

	// Observe is called as a run begins, and what it returns, if not nil, with each event that
	// the caller of the run is sent, [wire.Done] last. An event is valid until it returns.
	Observe func(RunInfo) func(wire.Event)

	// Sessions keeps conversations. Defaults to a [session.Memory].
	Sessions session.Store

	// Hosts are names, beside the loopback ones, under which a runtime without API keys
	// that is reached over loopback may be addressed. Others are refused, because a web
	// page can point a name of its own at 127.0.0.1.
	Hosts []string

	// Heartbeat is after how long without an event a comment is sent on an event stream.
	// Negative turns it off. Defaults to 15 s.
	Heartbeat time.Duration

	// WriteTimeout is how long a reader of an event stream may take nothing before it counts
	// as gone. Negative turns it off. Defaults to 30 s.
	WriteTimeout time.Duration

	// RunTTL is how long the end of a run is remembered. Defaults to 5 minutes.
	RunTTL time.Duration

	// Version is what health tells. Defaults to "devel".
	Version string

	// Logger defaults to one that discards.
	Logger *slog.Logger
}

// Approval is a tool call that would be refused.
type Approval struct {
	AgentID   string
	RunID     string
	SessionID string
	ToolUseID string
	Tool      string // its name
	Input     json.RawMessage
	Reason    error // why it would be refused
}

// RunInfo tells an observer which run begins.
type RunInfo struct {
	AgentID   string
	RunID     string
	SessionID string
	Metadata  map[string]string // of the request
}

func (c Config) withDefaults() (Config, error) {
	var err error
	if c.CWD == "" {
		if c.CWD, err = os.Getwd(); err != nil {
			return c, fmt.Errorf("find the working directory: %w", err)
		}
	}
	if c.CWD, err = filepath.Abs(c.CWD); err != nil {
		return c, fmt.Errorf("find the working directory: %w", err)
	}
	if info, err := os.Stat(c.CWD); err != nil {
		return c, fmt.Errorf("open the working directory: %w", err)
	} else if !info.IsDir() {
		return c, fmt.Errorf("open the working directory: %s is not a directory", c.CWD)
	}
	if slices.Contains(c.APIKeys, "") {
		return c, errors.New("an API key is empty")
	}
	c.Limits = c.Limits.WithDefaults()
	c.Version = cmp.Or(c.Version, "devel")
	c.AgentHome = cmp.Or(c.AgentHome, ".agents")
	if c.ChildEnv == nil {
		c.ChildEnv = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	if c.Sessions == nil {
		c.Sessions = session.NewMemory(session.MemoryConfig{TTL: c.Limits.SessionTTL})
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// digests of keys are compared, so that the time it takes says nothing about their length.
func digests(keys []string) [][sha256.Size]byte {
	list := make([][sha256.Size]byte, len(keys))
	for i, key := range keys {
		list[i] = sha256.Sum256([]byte(key))
	}
	return list
}
