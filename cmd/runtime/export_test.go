package main

import (
	"io"
	"net"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// What tests reach beside the command line.
var (
	Run     = run
	Exposed = exposed
)

// Welcome is the banner of a runtime that nothing was set for.
func Welcome(w io.Writer, addr net.Addr, file *agent.File) { new(settings).welcome(w, addr, file, nil) }
