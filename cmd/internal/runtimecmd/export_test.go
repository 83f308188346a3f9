package runtimecmd

import (
	"io"
	"net"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// Settings are the settings that the program reads.
type Settings = settings

// Exposed is tested with addresses that a test cannot listen on.
var Exposed = exposed

// Welcome returns the banner of a runtime with default settings.
func Welcome(w io.Writer, addr net.Addr, file *agent.File) { new(settings).welcome(w, addr, file, nil) }
