// Package mcp offers the tools of MCP servers (Model Context Protocol) as a [tool.Server]: local commands over
// stdio, and servers over SSE or streamable HTTP. It speaks the protocol through the official Go SDK.
//
//	connector, err := mcp.New(mcp.Config{CWD: dir, Env: []string{"PATH=/usr/bin:/bin"}, Logger: logger})
//	...
//	files, err := connector.Open("files", agent.MCPServer{Transport: "stdio", Command: "mcp-files"})
//	defer files.Close()
//	tools, err := files.Tools(ctx) // starts the command: mcp__files__read, mcp__files__write, ...
//
// A server is connected by the first Tools or Call that needs it. Any number of callers share one attempt; it goes on
// for at most ConnectTimeout, and is given up when the last of them was cancelled, though not when that one had no more
// time. After an attempt that failed, Tools and Call answer its error
// at once for 1 s, twice as long after each further failure and at most 30 s, so that not every run pays for a server
// that is down. A connection that is lost is made anew by the next call. A call that was under way when it was lost is
// not sent again, since it may have been carried out: the model is told so. A server that let a call run out of its time is
// asked whether it is there; if it does not say so within 3 s its connection is ended, and made anew by the next call.
//
// # What a server may do
//
// A stdio server runs in a process group of its own with exactly the environment that Config and its definition give,
// and the group ends with the connection. Its stderr goes to the Logger at debug level, and the error of one that does
// not start ends with its last lines. An HTTP server gets its headers with each request, and nobody else does: requests
// that would go to another origin, by a redirect or by what the server says, are refused. A server cannot ask for anything (sampling, elicitation, roots): nothing of that is
// announced, and a request is answered with an error. Names, schemas, descriptions and messages are bounded; see
// [Connector.Open]. Errors and the log hide the values of env and headers and the URL.
package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/runtime/tool"
)

// Config is what all servers of a Connector share.
type Config struct {
	// CWD is the working directory of stdio servers, an absolute path. Defaults to that of the process.
	CWD string

	// Env is the environment of stdio servers, as NAME=value; the env of a server comes on top. Its PATH finds the
	// command. Defaults to an empty one, never to that of the process.
	Env []string

	// HTTPClient makes the requests to sse and http servers: its Transport and Jar are used. Its Timeout is not, which
	// would end streams, nor its CheckRedirect. Defaults to a transport of its own for each connection, without a proxy.
	HTTPClient *http.Client

	// ConnectTimeout bounds the way from nothing to a list of tools. Defaults to 10 s.
	ConnectTimeout time.Duration

	// Name and Version tell a server who calls. Default to agenthost and 0.
	Name, Version string

	// Logger defaults to none.
	Logger *slog.Logger
}

// Connector opens servers. It is safe for concurrent use and holds nothing that would have to be closed.
type Connector struct{ cfg Config }

// New checks cfg and fills in its defaults.
func New(cfg Config) (*Connector, error) {
	for _, v := range cfg.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" || strings.ContainsRune(v, 0) {
			return nil, errors.New("mcp: an entry of Env is not NAME=value")
		}
	}
	if cfg.CWD != "" && !filepath.IsAbs(cfg.CWD) {
		return nil, errors.New("mcp: CWD is not absolute")
	}
	if cfg.ConnectTimeout < 0 {
		return nil, errors.New("mcp: ConnectTimeout is negative")
	}
	cfg.Env = slices.Clone(cfg.Env)
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 10*time.Second)
	cfg.Name = cmp.Or(cfg.Name, "agenthost")
	cfg.Version = cmp.Or(cfg.Version, "0")
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Connector{cfg}, nil
}

// A second _ in a row would let mcp__a__b__c be read as two servers.
var serverName = regexp.MustCompile(`^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$`)

// Open checks the definition of a server and answers the server, which is not connected yet: Open does no I/O. Its Close
// waits until the process, its group and the requests are gone, about 1 s at most.
//
// What a server lists beyond 1,000 tools or 8 MiB of schemas is left out, and so is a tool whose full name is not
// ^[A-Za-z0-9_-]{1,64}$, is there twice, or whose schema is not one of an object; the log says so. Descriptions are cut
// at 16 KiB. A message of more than 16 MiB ends the connection.
func (c *Connector) Open(name string, def agent.MCPServer) (tool.Server, error) {
	if !serverName.MatchString(name) || len(prefix(name)) >= maxName {
		return nil, fmt.Errorf("open mcp server %.80q: a name is letters, digits, hyphens and single underscores between them, at most %d",
			name, maxName-1-len(prefix("")))
	}
	s := newServer(c.cfg, name, def)
	var err error
	switch def.Transport {
	case agent.TransportStdio:
		s.carry, err = stdio(c.cfg, def, s.log)
	case agent.TransportSSE, agent.TransportHTTP:
		s.carry, err = overHTTP(c.cfg, def)
	default:
		err = fmt.Errorf("unknown transport %.80q", def.Transport)
	}
	if err != nil {
		return nil, fmt.Errorf("open mcp server %s: %w", name, err)
	}
	return s, nil
}

func prefix(server string) string { return "mcp__" + server + "__" }
