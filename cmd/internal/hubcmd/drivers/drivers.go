// Package drivers has what the program hub links in addition to agenthost: the platforms on which
// agents run, buckets of files, and the drivers of a runtime.
package drivers

import (
	"github.com/seed93082962/agenthost/cmd/internal/hubcmd"
	runtimes "github.com/seed93082962/agenthost/cmd/internal/runtimecmd/drivers"
)

// All returns all drivers of a hub.
func All() hubcmd.Drivers {
	return hubcmd.Drivers{Docker: openDocker, Kubernetes: openKubernetes, Bucket: openBucket, Drivers: runtimes.All()}
}
