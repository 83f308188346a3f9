package deploy

import (
	"context"
	"errors"
	"regexp"
	"time"
)

// ErrForeignRoute reports that the gateway has an entity with the name of a deployment that does
// not belong to the owner.
var ErrForeignRoute = errors.New("the gateway has an entity with the name of this deployment that does not belong to this hub: delete or rename it there")

// Gateway has the public routes of deployments. A route is addressed by the key of its deployment.
// The gateway marks its entities with their owner, the database of the hub, and changes no others.
// Each call can be repeated, and may end in the middle: the next call completes it. Methods are
// safe for concurrent use, also by several hubs. All members of a tenant may read the text of an
// error, which has no address of the gateway. What it wraps is for the log of the hub. If a Gateway
// has the method CloseIdleConnections, [Service.Close] calls it. The suite in gatewaytest tests the
// rules of this interface.
type Gateway interface {
	// Put makes a route the one of its key. It writes nothing if the gateway has the route. It fails
	// with ErrForeignRoute if an entity of this name has another owner or none.
	Put(ctx context.Context, owner string, route Route) error

	// Remove removes the route of a key. It has no effect if the owner has no such route.
	Remove(ctx context.Context, owner, key string) error

	// Routes returns the routes of an owner by their keys. A route that is incomplete, or that was
	// changed at the gateway, has only its Key.
	Routes(ctx context.Context, owner string) (map[string]Route, error)
}

// Route is the way from a public address to a runtime. Requests for Path and everything below it
// are sent to Target without Path, and neither requests nor responses are buffered.
type Route struct {
	Key     string        // of the deployment
	Host    string        // in lower case, without a port; "" for all hosts of the gateway
	Path    string        // such as /acme/helper: one or two names of [a-z0-9-]
	Target  string        // the base URL of the runtime, with its port and without a path
	Timeout time.Duration // until the next byte of a response, in whole seconds
}

var hostForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// HasHost reports whether Host has the form of a host.
func (r Route) HasHost() bool { return hostForm.MatchString(r.Host) }
