package main

import (
	"io"
	"net"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// Internals that tests use in addition to the command line.
var (
	Run     = run
	Exposed = exposed
)

// Welcome returns the banner of a runtime with default settings.
func Welcome(w io.Writer, addr net.Addr, file *agent.File) { new(settings).welcome(w, addr, file, nil) }
