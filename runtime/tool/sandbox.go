package tool

import "os/exec"

// Sandbox confines processes that tools start. It is safe for concurrent use.
type Sandbox interface {
	// Start changes cmd so that its process is confined, and calls start, which starts cmd. The
	// directory, the environment and the output of cmd keep their meaning, except for HOME, TMPDIR
	// and the variables of proxies.
	//
	// denied returns the connections that the process was denied so far, one sentence for each.
	Start(cmd *exec.Cmd, start func() error) (denied func() []string, err error)

	// Home returns the home directory of the processes, which no other sandbox can access. It is
	// deleted by Close.
	Home() string

	// Summary is one sentence for the model: what a process can access, and which settings permit
	// more.
	Summary() string

	// Close releases the resources. The processes must have ended.
	Close()
}
