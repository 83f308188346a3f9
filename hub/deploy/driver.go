package deploy

import (
	"context"
	"errors"
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

// Driver runs the runtimes of deployments on one platform. A deployment is addressed by its key.
// The suite in deploytest tests the rules of this interface.
//
// Each method moves the deployment towards the wanted state and returns without waiting for it: the
// caller observes the progress, and repeats the call until the state is reached. A call for a state
// that is reached has no effect. Methods are safe for concurrent use, also by several hubs.
type Driver interface {
	// Backend returns the name of the platform in responses, such as "process".
	Backend() string

	// Apply replaces the request of a deployment by that of the revision, and starts its runtime.
	// A runtime of another revision is stopped first. The data of the deployment remains: its
	// working directory and its conversations.
	Apply(ctx context.Context, claim Claim, revision int64, req Request) error

	// Observe returns the state of a deployment. An unknown key is Absent.
	Observe(ctx context.Context, key string) (Observed, error)

	// Start starts the runtime of a deployment that is Stopped or Exited, with its last request.
	Start(ctx context.Context, claim Claim) error

	// SetKeys replaces the API keys that the runtime accepts, within seconds and without ending its
	// runs. A runtime that is started later accepts them too, until the next Apply.
	SetKeys(ctx context.Context, claim Claim, keys []agent.Secret) error

	// Stop stops the runtime. Its runs have a few seconds to end.
	Stop(ctx context.Context, claim Claim) error

	// Delete stops the runtime and deletes all data of the deployment.
	Delete(ctx context.Context, claim Claim) error

	// Logs returns the last lines of the runtime's log, oldest first. An unknown key has none.
	Logs(ctx context.Context, key string, tail int) ([]string, error)

	// List returns the keys of all deployments of an owner, in any order.
	List(ctx context.Context, owner string) ([]string, error)
}

// FencedError is an ErrFenced with the highest fence that was used for the key.
type FencedError struct{ Fence int64 }

func (*FencedError) Error() string { return ErrFenced.Error() }

// Unwrap returns ErrFenced.
func (*FencedError) Unwrap() error { return ErrFenced }

// Claim states who changes a deployment. A driver remembers the highest fence of each key and
// rejects a lower one with ErrFenced: it belongs to a hub that was frozen and has lost its lease. It
// also remembers the owner of a deployment, and rejects others with ErrForeign until it is deleted.
type Claim struct {
	Key   string
	Fence int64
	Owner string // of at most 40 characters: the database of the hub
}

// Phase is the state of a runtime on its platform.
type Phase string

// Values of Phase.
const (
	Absent   Phase = "absent"   // there is no deployment
	Running  Phase = "running"  // started; the hub checks whether it is ready
	Stopping Phase = "stopping" // it was requested to end
	Stopped  Phase = "stopped"  // it ended on request, or was never started
	Exited   Phase = "exited"   // it ended without a request
)

// Observed is what a driver knows about a deployment.
type Observed struct {
	Phase     Phase
	Revision  int64     // of the request that was applied last
	URL       string    // of the runtime, if Running
	StartedAt time.Time // of the current or the last runtime
	Message   string    // details for the user, such as why it exited
	Owner     string    // of the last claim; "" if it is unknown
}
