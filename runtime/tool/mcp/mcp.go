// Package mcp offers the tools of MCP servers (Model Context Protocol) as a [tool.Server]: local
// commands over stdio, and servers over SSE or streamable HTTP. It uses the official Go SDK.
//
//	connector, err := mcp.New(mcp.Config{
//		CWD: dir, Env: []string{"PATH=/usr/bin:/bin"}, Logger: logger,
//	})
//	...
//	server := agent.MCPServer{Transport: "stdio", Command: "mcp-files"}
//	files, err := connector.Open("files", server, agent.Limits{}, nil) // not confined
//	defer files.Close()
//	list, err := files.Tools(ctx) // starts the command: mcp__files__read, mcp__files__write, ...
//
// The first Tools or Call connects the server. Concurrent callers share one attempt. The attempt
// takes at most MCPConnectTimeout, and ends early when the last of its callers is cancelled. The
// first start of a command may take MCPStartTimeout, since a package runner may install it; callers
// wait for the first part of it only, and a cancelled caller does not end it any more. After a
// failed attempt, Tools and Call return its error immediately for 1 s, doubled for each further
// failure up to 30 s. The next call after the loss of a connection connects again. A call during
// which the connection is lost is not repeated, since it may have been executed: the result says
// so. After a call that exceeds its time, the server is pinged; without a response within 3 s the
// connection ends.
//
// A server of protocol 2026-07-28 may ask in the result of a call: for values of a form, or for a
// visit to a URL. The result is then a [tool.Question], and the next call has the answer and the
// state of the server, perhaps in another process. Requests of one result are asked one after
// another, and their answers are sent together. If the call cannot ask, they are declined. After 10
// such results the call fails. A result without requests means that the server is busy: the call is
// sent again 3 times. A resource that requires input is an error for the model.
//
// A server that knows this protocol and an older one is served in the newer one: the first message
// of a connection is server/discover. Without a response in 5 s, or in half of the time to connect
// if that is less, or after an error, initialize follows; if the server has ended the connection,
// in a second one. A server of an older protocol cannot ask: the client does not announce it, and a
// request for input within a call receives decline.
//
// # Security
//
// Servers are untrusted. A stdio server runs in its own process group, which ends with the
// connection, and in the sandbox of [Connector.Open], if it has one. Then it starts in the private
// home of the sandbox, which is not deleted when it ends. Its environment contains only the
// variables of Config and of its definition.
//
// An agent can edit what an interpreter executes: modules, packages, configuration. A stdio server
// therefore starts in a private empty directory, which is deleted when it ends, unless its
// definition has a cwd. There, HOME and TMPDIR of Config are the private directory if they are in
// CWD, and PATH does not contain CWD. A command with a slash and arguments must then be absolute
// paths. The variables of a definition are not changed: PYTHONPATH, NODE_PATH or HOME in CWD, like
// a cwd or a script there, permit an agent that edits files to change the server.
//
// Its stderr is logged: with the id of the run and within its [logquota.Quota] if only one run uses
// the server, otherwise at most 64 KiB in a minute. The error of a failed start ends with its last
// lines.
//
// An HTTP server receives its headers with each request; requests to another origin, through
// redirects or endpoints that the server names, are rejected. Errors and the log contain neither
// values of env and headers nor the URL.
//
// Only the messages that the runtime uses pass, in both directions: responses to its own calls and
// the notifications that the tools have changed and that a call makes progress. A ping receives its
// response, any other request is rejected, and everything else is dropped before the SDK sees it. A
// message that is not JSON-RPC, or has a member twice, ends the connection. A panic while the SDK
// decodes a result ends only that connection.
//
// A form has at most 64 KiB, is flat and has no references. A URL is an ASCII http or https URL
// without credentials. An answer is sent only to a server of the same definition and protocol. A
// request for a model, or for directories, is an error of the call.
//
// Time and memory are bounded: a message has at most 16 MiB, 200 levels and 524,288 values, and a
// listing at most 32 MiB. Replies to a server are written before its next message is read, so that
// they do not accumulate. See [Connector.Open] for the limits of tools.
package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed93082962/agenthost/internal/agentvalue"
	"github.com/seed93082962/agenthost/internal/pattern"
	"github.com/seed93082962/agenthost/internal/privatedir"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Config is the configuration of all servers of a Connector.
type Config struct {
	// CWD is the directory that agents edit, an absolute path. A relative cwd of a stdio server is
	// relative to it. Defaults to that of the process.
	CWD string

	// Dir is the parent of the private directories of stdio servers. It is created if it is
	// missing. Interpreters search the parents of the directory in which they start: neither agents
	// nor other users should be able to write to Dir or its parents. Defaults to os.TempDir().
	Dir string

	// Env is the environment of stdio servers, as NAME=value. The env of a server is added to it.
	// Commands are looked up in its PATH. Defaults to an empty environment, never to that of the
	// process.
	Env []string

	// HTTPClient has the Transport and the Jar for sse and http servers. Its Timeout, which would
	// end streams, and its CheckRedirect are not used. Defaults to a transport without a proxy for
	// each connection.
	HTTPClient *http.Client

	// Name and Version identify this client to servers. Default to agenthost and 0.
	Name, Version string

	// Logger defaults to one that discards everything.
	Logger *slog.Logger
}

// Connector opens servers. It is safe for concurrent use and needs no Close.
type Connector struct {
	cfg  Config
	dirs *privatedir.Set
}

// New returns a connector.
func New(cfg Config) (*Connector, error) {
	for _, v := range cfg.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.ContainsRune(v, 0) {
			return nil, errors.New("mcp: an entry of Env is not NAME=value")
		}
	}

	if cfg.CWD != "" && !filepath.IsAbs(cfg.CWD) {
		return nil, errors.New("mcp: CWD is not absolute")
	}

	cfg.Env = slices.Clone(cfg.Env)
	cfg.Name = cmp.Or(cfg.Name, "agenthost")
	cfg.Version = cmp.Or(cfg.Version, "0")
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}

	dir, err := filepath.Abs(cmp.Or(cfg.Dir, os.TempDir()))
	if err == nil && cfg.CWD == "" {
		cfg.CWD, err = os.Getwd()
	}

	if err != nil {
		return nil, fmt.Errorf("mcp: find the working directory: %w", err)
	}

	return &Connector{cfg, privatedir.New(dir, "agenthost-mcp-", cfg.Logger)}, nil
}

// PrivateDir returns the parent of the private directories of this connector's servers. It exists
// while one of them runs. Programs start there, so no agent should write to it.
func (c *Connector) PrivateDir() string { return c.dirs.Path() }

// With a double underscore in a name, mcp__a__b__c would be ambiguous.
var serverName = pattern.Compile(`^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$`)

// Open returns a server that is not connected yet: it checks the definition and does no I/O. Close
// of the server waits for the end of its process group and its requests, for about 1 s at most.
//
// A tool whose full name is not ^[A-Za-z0-9_-]{1,64}$ is offered under a mapped name: with _ for .
// and /, and shortened with a hash. Spec.Original is its full name. The following tools are
// omitted, with a warning in the log: tools beyond 1,000 tools or 8 MiB of schemas, tools with a
// name that the protocol does not allow, tools that are listed twice or can only be called as a
// task, and tools whose schema is not of type object. Descriptions are cut at 16 KiB.
//
// Of the limits, those of MCP servers and the time of a tool call are used.
//
// If box is not nil, a stdio server is confined by it. The caller closes box after the server. It
// starts in the home of box, unless def has a cwd.
func (c *Connector) Open(name string, def agent.MCPServer, limits agent.Limits, box tool.Confiner) (tool.Server, error) {
	if !serverName().MatchString(name) || len(prefix(name)) >= maxName {
		return nil, fmt.Errorf("open mcp server %.80q: a name has letters, digits, hyphens and single underscores between them, at most %d",
			name, maxName-1-len(prefix("")))
	}

	s := &server{
		cfg: c.cfg, name: name, identity: identityOf(def), limits: limits.WithDefaults(), slow: def.Transport == agentvalue.TransportStdio,
		timeout: def.Timeout, instructions: def.Instructions,
		hide: newRedactor(def), log: c.cfg.Logger.With("mcp_server", name),
	}
	var err error
	switch def.Transport {
	case agentvalue.TransportStdio:
		s.openEndpoint, err = c.stdio(def, box, s.log)
	case agentvalue.TransportSSE, agentvalue.TransportHTTP:
		s.openEndpoint, err = overHTTP(c.cfg, def)
	default:
		err = fmt.Errorf("unknown transport %.80q", def.Transport)
	}

	if err != nil {
		return nil, fmt.Errorf("open mcp server %s: %w", name, err)
	}

	return s, nil
}

func prefix(server string) string { return "mcp__" + server + "__" }
