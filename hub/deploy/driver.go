// Package deploy defines what the hub needs of a platform that runs agents, a [Driver], and of a
// gateway in front of them, a [Gateway]. Packages process, docker and kubernetes have drivers. The
// suites of deploytest and gatewaytest test the rules of both interfaces.
//
//	driver, err := process.New(process.Config{Dir: "/var/lib/hub/deployments"})
//	if err != nil { ... }
//	h, err := hub.New(ctx, hub.Config{Deployer: driver})
package deploy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed93082962/agenthost/runtime/agent"
)

// ErrUnavailable is an error of a [Driver]. It reports that the platform cannot be reached. The
// deployment is unchanged.
var ErrUnavailable = errors.New("deployer is unavailable")

// Driver runs the runtimes of deployments on one platform. A deployment is addressed by its [Ref],
// and may have runtimes of several revisions, which share its data: its working directory and its
// conversations. Deployments with the same key and other UIDs have nothing in common. The suite in
// deploytest tests the rules of this interface.
//
// Each method moves the deployment towards the wanted state and returns without waiting for it: the
// caller observes the progress, and repeats the call until the state is reached. A call for a state
// that is reached has no effect. Methods are safe for concurrent use, also by several hubs. A hub
// that was frozen may make its last call late: the others repair what it changes.
//
// If a Driver has the method Own(owner string), [New] calls it before others: Observe may then
// return that deployments of other owners do not exist.
type Driver interface {
	// Backend returns the name of the platform in responses, such as "process".
	Backend() string

	// CheckDeployment returns an error for the user if the platform cannot enforce these settings.
	// It does not call the platform. Apply fails with the same error.
	CheckDeployment(agent.Deployment) error

	// Apply starts the runtime of a revision with a request, next to those of other revisions. It
	// has no effect while that runtime runs.
	Apply(ctx context.Context, ref Ref, revision int64, req Request) error

	// Observe returns the state of a deployment. An unknown one does not exist. All hubs may call
	// it at any time: it has no effect on a runtime.
	Observe(ctx context.Context, ref Ref) (Observed, error)

	// SetKeys replaces the API keys that all runtimes of the deployment accept, within seconds and
	// without ending their runs.
	SetKeys(ctx context.Context, ref Ref, keys []agent.Secret) error

	// Stop ends the runtime of a revision: it accepts no new runs, and its runs may continue for
	// the time of patience, or for a few seconds if that is shorter. Then they are cancelled. A
	// later call may have less patience.
	Stop(ctx context.Context, ref Ref, revision int64, patience time.Duration) error

	// Discard stops the runtime of a revision, and deletes what belongs to the revision only.
	Discard(ctx context.Context, ref Ref, revision int64) error

	// Delete stops all runtimes and deletes all data of the deployment.
	Delete(ctx context.Context, ref Ref) error

	// Logs returns the last lines of the log of a revision, oldest first. An unknown one has none.
	Logs(ctx context.Context, ref Ref, revision int64, tail int) ([]string, error)

	// List returns all deployments of an owner, in any order.
	List(ctx context.Context, owner string) ([]Ref, error)
}

// Ref names a deployment on a platform.
type Ref struct {
	Key   string
	UID   string // of a deployment until it is deleted, at most 40 of [a-z0-9-]; "" if an older version created it
	Owner string // of at most 40 characters: the database of the hub
}

// Observed is what a driver knows about a deployment.
type Observed struct {
	Exists   bool
	Runtimes []Runtime // at most one of each revision, by revision
}

// Runtime is the runtime of a revision.
type Runtime struct {
	Revision  int64
	Phase     Phase
	URL       string    // with its port and without a path; while it runs, also if it is Stopping
	StartedAt time.Time // of the current or the last process
	Replicas  []string  // the URLs of its processes, if each has conversations of its own
	Message   string    // details for the user, such as why it exited

	// Preparing reports that the platform prepares the start and has found no fault: it pulls the
	// image, for example. The time to start has not begun.
	Preparing bool
}

// Phase is the state of a runtime on its platform.
type Phase string

// Values of Phase.
const (
	Running  Phase = "running"  // started; the hub checks whether it is ready
	Stopping Phase = "stopping" // it was requested to end
	Stopped  Phase = "stopped"  // it ended on request, or was never started
	Exited   Phase = "exited"   // it ended without a request; the platform may have started it again
	Changed  Phase = "changed"  // it runs, but someone has changed it on the platform: Apply repairs it
)

// Runtime returns the runtime of a revision. It has no Phase if there is none.
func (o Observed) Runtime(revision int64) Runtime {
	for _, r := range o.Runtimes {
		if r.Revision == revision {
			return r
		}
	}

	return Runtime{}
}

// Request is a deploy request: all that a driver needs to run an agent. Its JSON form contains
// secrets in clear text.
type Request struct {
	Key         string                  `json:"key"`
	Tenant      string                  `json:"tenant,omitempty"` // of the agent
	AgentID     string                  `json:"agentId"`
	Config      agent.Agent             `json:"config"`      // without custom tools and skill archives
	CustomTools []agent.CustomTool      `json:"customTools"` // sorted by name
	Skills      []agent.SkillArchive    `json:"skills"`      // sorted by name
	Deployment  agent.Deployment        `json:"deployment,omitzero"`
	Env         map[string]agent.Secret `json:"env"` // of the runtime, in addition to that of the platform
}

// RunLimit is the longest time that a run of the agent may take.
func (r Request) RunLimit() time.Duration {
	return agent.Limits{}.Of(r.Config.Limits).WithDefaults().RunTimeout
}

// File returns the configuration file of the runtime.
func (r Request) File() agent.File {
	def := r.Config
	def.ID = r.AgentID
	def.CustomTools = slices.Concat(def.CustomTools, r.CustomTools)
	def.SkillArchives = slices.Concat(def.SkillArchives, r.Skills)
	return agent.File{Agents: []agent.Agent{def}}
}

// EnvAPIKey is the variable of Request.Env with the API keys of the runtime, separated by commas.
const EnvAPIKey = "AGENT_HTTP_API_KEY"
