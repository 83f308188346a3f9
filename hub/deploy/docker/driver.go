// Package docker runs deployments as containers of a Docker engine, one for each revision.
//
//	driver, err := docker.New(docker.Config{
//		Host: "unix:///var/run/docker.sock", Image: "agenthost-runtime",
//	})
//	if err != nil { ... }
//	defer driver.Close()
//
// The entry point of the image is the command runtime, with which a container serves port 8080 as
// the user 65532, without capabilities, on a read-only root. It has
//
//	/data            a volume of the deployment: the working directory, the home directory and the
//	                 conversations
//	/run/agenthost   a volume of the container: the configuration with the keys of providers, and
//	                 the API keys. They are copied into it, and are never part of what the engine
//	                 shows of a container. It is removed with the container, or by the next List.
//	/tmp             in memory
//
// The containers of a tenant have a network of their own. It leads to the outside, and to every
// port that the machine of the engine binds on all of its addresses.
//
// Containers and volumes have labels with the key, the UID and the owner of their deployment.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/internal/replica"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Config configures [New].
type Config struct {
	// Host is the address of the engine, such as unix:///var/run/docker.sock or tcp://127.0.0.1:2376.
	// The engine is on this machine, unless HubContainer is one of its containers. Required.
	Host string

	// CertDir has ca.pem, cert.pem and key.pem for TLS. Defaults to none.
	CertDir string

	// Image is the image of the runtimes, which the engine has. Required.
	Image string

	// Env is the environment of the runtimes, as "NAME=value". The engine shows it to its users.
	Env []string

	// Secrets are variables of the runtimes whose values the engine does not show: for NAME, each
	// has a file, whose path is the variable NAME_FILE. Defaults to none.
	Secrets map[string]agent.Secret

	// HubContainer is the name or id of the container in which the hub runs. The driver connects it
	// to the networks of the tenants. Defaults to none: the ports of runtimes are published on the
	// loopback address. That is also the case if it has the network of the machine.
	HubContainer string

	// HubDetected permits that the engine has no HubContainer, as if it were none. An engine that runs
	// in the container of the hub has not.
	HubDetected bool

	// Subnets are divided into the networks of tenants. Defaults to 10.213.0.0/16, for 1,024.
	Subnets []netip.Prefix

	// Default has the limits of the container of an agent that has none of its own. There is no swap.
	// Its fields default to 1Gi, 1000m and 512 processes.
	Default agent.Deployment

	// Grace is how long a runtime may take to end on request, until it is killed. Its runs have
	// three quarters of that. Defaults to 12 s.
	Grace time.Duration

	// Timeout bounds what a method needs of the engine. Defaults to 20 s: a hub gives a step 30 s.
	Timeout time.Duration
}

// Driver is a deploy.Driver. It is safe for concurrent use.
type Driver struct {
	cfg    Config
	engine *client.Client
	reach  reach

	placing chan struct{} // has one value while a container is put into a network, or a network is removed

	sweeping sync.Mutex // held while networks and requests are removed

	snapshots snapshots
	running   sync.WaitGroup  // for what continues after a call
	ctx       context.Context // of that
	stop      context.CancelFunc
}

var _ deploy.Driver = (*Driver)(nil)

// defaultSubnet is large enough for 1,024 networks, and rarely in use elsewhere.
var defaultSubnet = netip.MustParsePrefix("10.213.0.0/16")

var errRemote = errors.New("the Docker engine is on another machine, where the hub cannot reach the agents: " +
	"run the hub in a container of that engine, with docker.hubContainer, or use the engine of this machine")

// New returns a driver. It does not call the engine. The caller must call Close.
func New(cfg Config) (*Driver, error) {
	if cfg.Host == "" || cfg.Image == "" {
		return nil, errors.New("make docker deployer: Host and Image are required")
	}

	host, err := url.Parse(cfg.Host)
	if err != nil || !slices.Contains([]string{"unix", "tcp", "npipe"}, host.Scheme) {
		return nil, errors.New("make docker deployer: the address of the engine begins with unix://, tcp:// or npipe://")
	}

	if cfg.HubContainer == "" || cfg.HubDetected {
		local, err := onThisMachine(host)
		if err == nil && !local && cfg.HubContainer == "" {
			err = errRemote
		}

		if err != nil {
			return nil, fmt.Errorf("make docker deployer: %w", err)
		}

		cfg.HubDetected = local && cfg.HubDetected
	}

	if len(cfg.Subnets) == 0 {
		cfg.Subnets = []netip.Prefix{defaultSubnet}
	}

	if err := checkSubnets(cfg.Subnets); err != nil {
		return nil, err
	}

	cfg.Default.Memory = cmp.Or(cfg.Default.Memory, "1Gi")
	cfg.Default.CPU = cmp.Or(cfg.Default.CPU, "1000m")
	cfg.Default.Processes = cmp.Or(cfg.Default.Processes, 512)
	cfg.Grace = cmp.Or(cfg.Grace, 12*time.Second)
	cfg.Timeout = cmp.Or(cfg.Timeout, 20*time.Second)
	options := []client.Opt{client.WithHost(cfg.Host)}
	if cfg.CertDir != "" {
		file := func(name string) string { return filepath.Join(cfg.CertDir, name) }
		options = append(options, client.WithTLSClientConfig(file("ca.pem"), file("cert.pem"), file("key.pem")))
	}

	engine, err := client.New(options...)
	if err != nil {
		return nil, fmt.Errorf("make docker deployer: %w", err)
	}

	d := &Driver{cfg: cfg, engine: engine, placing: make(chan struct{}, 1)}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.snapshots.changed, d.snapshots.seen = map[deploy.Ref]time.Time{}, map[string]sighting{}
	return d, nil
}

// Close closes the connections to the engine. The runtimes continue.
func (d *Driver) Close() error {
	d.stop()
	d.running.Wait()
	return d.engine.Close()
}

// Backend returns "docker".
func (d *Driver) Backend() string { return "docker" }

// CheckDeployment returns an error for several replicas.
func (d *Driver) CheckDeployment(wanted agent.Deployment) error {
	return replica.One(d.Backend(), wanted)
}

// keyPattern is that of a deployment key, and of a UID.
var keyPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,127}$`)

func checkRef(ref deploy.Ref) error {
	if !keyPattern.MatchString(ref.Key) || ref.UID != "" && !keyPattern.MatchString(ref.UID) {
		return fmt.Errorf("deployment key %.200q is not valid", ref.Key)
	}

	return nil
}

// bounded returns a context for the calls of one method.
func (d *Driver) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d.cfg.Timeout, errTimeout)
}
