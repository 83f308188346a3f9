// Command worker is only a worker, for tests without the race detector, which makes the engine
// fifty times slower.
package main

import (
	"fmt"
	"os"

	"github.com/seed93082962/agenthost/runtime/tool/js/worker"
)

func main() {
	if err := worker.Run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
