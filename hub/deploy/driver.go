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

// Errors of a [Driver].
var (
	// ErrFenced reports that a claim with a higher fence was used for the key: the caller has lost
	// its lease, or its database was restored from a backup. The error is a [FencedError].
	ErrFenced = errors.New("another hub controls the deployment")

	// ErrForeign reports that a hub with another database has the key.
	ErrForeign = errors.New("a hub with another database has a deployment of this name on the same platform: delete it there")

	// ErrUnavailable reports that the platform cannot be reached. The deployment is unchanged.
	ErrUnavailable = errors.New("deployer is unavailable")
)

// Driver runs the runtimes of deployments on one platform. A deployment is addressed by its key,
// and may have runtimes of several revisions, which share its data: its working directory and its
// conversations. The suite in deploytest tests the rules of this interface.
//
// Each method moves the deployment towards the wanted state and returns without waiting for it: the
// caller observes the progress, and repeats the call until the state is reached. A call for a state
// that is reached has no effect. Methods are safe for concurrent use, also by several hubs.
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
	Apply(ctx context.Context, claim Claim, revision int64, req Request) error

	// Observe returns the state of a deployment. An unknown key does not exist. All hubs may call
	// it at any time: it has no effect on a runtime.
	Observe(ctx context.Context, key string) (Observed, error)

	// SetKeys replaces the API keys that all runtimes of the deployment accept, within seconds and
	// without ending their runs.
	SetKeys(ctx context.Context, claim Claim, keys []agent.Secret) error

	// Stop ends the runtime of a revision: it accepts no new runs, and its runs may continue for
	// the time of patience, or for a few seconds if that is shorter. Then they are cancelled. A
	// later call may have less patience.
	Stop(ctx context.Context, claim Claim, revision int64, patience time.Duration) error

	// Discard stops the runtime of a revision, and deletes what belongs to the revision only.
	Discard(ctx context.Context, claim Claim, revision int64) error

	// Delete stops all runtimes and deletes all data of the deployment. A lower claim is rejected
	// afterwards, also if there was no deployment.
	Delete(ctx context.Context, claim Claim) error

	// Logs returns the last lines of the log of a revision, oldest first. An unknown one has none.
	Logs(ctx context.Context, key string, revision int64, tail int) ([]string, error)

	// List returns the keys of all deployments of an owner, in any order.
	List(ctx context.Context, owner string) ([]string, error)
}

// FencedError is an ErrFenced with the highest fence that was used for the key.
type FencedError struct{ Fence int64 }

func (*FencedError) Error() string { return ErrFenced.Error() }

// Unwrap returns ErrFenced.
func (*FencedError) Unwrap() error { return ErrFenced }

// Claim states who changes a deployment. A driver remembers the highest fence of each key and
// rejects a lower one with ErrFenced: it belongs to a hub that was frozen and has lost its lease.
// It also remembers the owner of a deployment, and rejects others with ErrForeign until it is
// deleted.
type Claim struct {
	Key   string
	Fence int64
	Owner string // of at most 40 characters: the database of the hub
}

// Observed is what a driver knows about a deployment.
type Observed struct {
	Exists   bool
	Owner    string    // of the last claim; "" if it is unknown
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
