// Package kubernetes runs deployments in a Kubernetes cluster: a Deployment, a Secret, a Service
// and a NetworkPolicy for each revision, in one namespace.
//
//	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
//	if err != nil { ... }
//	driver, err := kubernetes.New(kubernetes.Config{
//		REST: config, Namespace: "agents", Image: "agenthost-runtime:1",
//	})
//	if err != nil { ... }
//	defer driver.Close()
//
// The entry point of the image is the command runtime. Its pods satisfy the restricted pod security
// standard. A pod has
//
//	/data            the working directory, the home directory and the conversations: a volume of the
//	                 deployment, or one that ends with the pod
//	/run/agenthost   the Secret of its revision: the configuration with the keys of providers, and the
//	                 API keys
//	/tmp             a volume that ends with the pod
//
// The names of all objects contain a digest of the key and the UID of their deployment.
package kubernetes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/runtime/agent"
)

// Config configures [New].
type Config struct {
	// REST is the way to the API server. Required.
	REST *rest.Config

	// Namespace has the runtimes, and nothing else that users of the hub may not see. Required.
	Namespace string

	// Image is the image of the runtimes. Required.
	Image string

	// Env is the environment of the runtimes, as "NAME=value". Pods show it.
	Env []string

	// Secrets are variables of the runtimes whose values pods do not show: for NAME, the Secret of a
	// revision has a file, whose path is the variable NAME_FILE. Defaults to none.
	Secrets map[string]agent.Secret

	// Collector is the address, as host:port, to which runtimes send traces. They reach it if it is an
	// IP address, outside of the cluster, or a pod with the label agenthost.dev/collector. Defaults to
	// none.
	Collector string

	// Metrics makes runtimes serve metrics for Prometheus on port 9464, without a key. Pods with the
	// label agenthost.dev/monitoring reach it. Defaults to false.
	Metrics bool

	// Default has the pods and the limits of a pod of an agent that has none of its own. A pod
	// requests its memory and a tenth of its processors. More than one replica needs Bus. Its fields
	// default to 1 replica, 1Gi and 1000m.
	Default agent.Deployment

	// Bus connects the pods of a deployment, so that a cancel reaches the pod that has the run.
	// Defaults to none.
	Bus *Bus

	// Scratch limits the files of a pod that are not in a volume of the deployment, with its log, as
	// a quantity. A pod requests a tenth of it. The node evicts a pod that has more. Defaults to 2Gi.
	Scratch string

	// RuntimeClass is the runtimeClassName of the pods. Defaults to that of the cluster.
	RuntimeClass string

	// StorageSize is the size of the volume of a deployment, such as 1Gi. All pods of the deployment
	// run on one node then. Defaults to none: the data of a pod ends with it.
	StorageSize string

	// StorageClass is the storageClassName of the volumes. Defaults to that of the cluster.
	StorageClass string

	// Internal lists networks that runtimes do not reach, in addition to the private networks:
	// those of pods, services and nodes with other addresses. Defaults to none.
	Internal []netip.Prefix

	// PodAddress makes the address of a runtime that of its first pod, for a hub outside the cluster
	// that reaches pods and no Services. Defaults to false: it is that of the Service.
	PodAddress bool

	// Grace is how long a runtime may take to end on request, until it is killed. Defaults to 12 s.
	Grace time.Duration

	// Timeout bounds what a method needs of the API server. Defaults to 30 s.
	Timeout time.Duration
}

// Driver is a deploy.Driver. It is safe for concurrent use.
type Driver struct {
	cfg      Config
	objects  dynamic.Interface
	metadata metadata.Interface // of objects whose content the driver does not read
	logs     rest.Interface

	ctx     context.Context // of the watches, until Close
	stop    context.CancelFunc
	watches sync.WaitGroup
	start   sync.Once
	cache   cache

	repairs repairs

	unrouted   sync.Mutex // guards the fields below
	routed     bool       // HTTPRoutes belong to a Gateway, or cannot be listed
	unroutedAt time.Time  // when others were removed last
}

var _ deploy.Driver = (*Driver)(nil)

// New returns a driver. It does not call the API server. The caller must call Close.
func New(cfg Config) (*Driver, error) {
	if cfg.REST == nil || cfg.Namespace == "" || cfg.Image == "" {
		return nil, errors.New("make kubernetes deployer: REST, Namespace and Image are required")
	}

	cfg.Default.Replicas = cmp.Or(cfg.Default.Replicas, 1)
	if cfg.Default.Replicas > 1 && cfg.Bus == nil {
		return nil, errors.New("make kubernetes deployer: several Replicas need a Bus: a cancel would not reach the pod that has the run")
	}

	cfg.Default.Memory = cmp.Or(cfg.Default.Memory, "1Gi")
	cfg.Default.CPU = cmp.Or(cfg.Default.CPU, "1000m")
	cfg.Grace = cmp.Or(cfg.Grace, 12*time.Second)
	cfg.Timeout = cmp.Or(cfg.Timeout, 30*time.Second)
	cfg.Scratch = cmp.Or(cfg.Scratch, "2Gi")
	for _, network := range cfg.Internal {
		if !network.IsValid() || network.Bits() == 0 || network.Addr().Is4In6() {
			return nil, fmt.Errorf("make kubernetes deployer: %v is not a network that a NetworkPolicy can except", network)
		}
	}

	cfg.Internal = append(privateNetworks(), cfg.Internal...)
	if cfg.Default.Bytes() == 0 || cfg.Default.MilliCPU() == 0 {
		return nil, errors.New("make kubernetes deployer: Default has no memory such as 1Gi, or no cpu such as 500m")
	}

	for _, text := range []*string{&cfg.Scratch, &cfg.StorageSize} {
		if *text == "" {
			continue
		}

		q, err := resource.ParseQuantity(*text)
		if err != nil || q.Sign() <= 0 {
			return nil, fmt.Errorf("make kubernetes deployer: %.100q is not a quantity such as 1Gi", *text)
		}

		*text = q.String() // as the API server writes it
	}

	config := rest.CopyConfig(cfg.REST)
	config.QPS, config.Burst = 100, 200
	config.Timeout = 0 // it would end watches; each call has a context
	d := &Driver{cfg: cfg}
	var err error
	if d.objects, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make kubernetes deployer: %w", err)
	}

	if d.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make kubernetes deployer: %w", err)
	}

	if d.logs, err = logClient(config); err != nil {
		return nil, fmt.Errorf("make kubernetes deployer: %w", err)
	}

	d.ctx, d.stop = context.WithCancel(context.Background())
	d.cache.init(d)
	return d, nil
}

// privateNetworks returns the networks that no runtime reaches: the private ones, and the
// link-local ones, in which clouds have the service with the credentials of a node.
func privateNetworks() (all []netip.Prefix) {
	for _, text := range []string{
		"10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fe80::/10",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}

	return all
}

// Close ends the watches. The runtimes continue.
func (d *Driver) Close() error {
	d.stop()
	d.watches.Wait()
	return nil
}

// Backend returns "kubernetes".
func (d *Driver) Backend() string { return "kubernetes" }

// CheckDeployment returns an error for several replicas without a bus, and for a limit of
// processes, which a pod cannot have.
func (d *Driver) CheckDeployment(wanted agent.Deployment) error {
	switch {
	case wanted.Replicas > 1 && d.cfg.Bus == nil:
		return fmt.Errorf("deployment.replicas is %d, and several replicas require AGENT_BUS_URL: a cancel would not reach the pod that has the run",
			wanted.Replicas)
	case wanted.Processes != 0:
		return errors.New("deployment.processes: the processes of a pod are limited by the nodes of the cluster (podPidsLimit): omit it")
	}

	return nil
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

// digest returns a text of 16 characters that a label can have, for a text that it cannot.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// index returns the label by which the objects of a deployment are found.
func index(ref deploy.Ref) string {
	if ref.UID == "" {
		return digest(ref.Key)
	}

	return digest(ref.Key + "." + ref.UID)
}

// commonName is the name of what all revisions of a deployment share. Names have at most 63
// characters, as those of Services do: the beginning of the key is for people.
func commonName(ref deploy.Ref) string {
	return "agent-" + strings.TrimRight(ref.Key[:min(len(ref.Key), 20)], "-") + "-" + index(ref)
}

// revisionName is the name of the objects of a revision.
func revisionName(ref deploy.Ref, revision int64) string {
	return fmt.Sprintf("%s-%d", commonName(ref), revision)
}
