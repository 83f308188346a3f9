package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/client-go/tools/clientcmd/api"
)

// patience limits each wait for the control plane.
const patience = 2 * time.Minute

const (
	pki       = scratch + "/pki"
	auditLog  = scratch + "/audit.log"
	serverURL = "https://" + gateway + ":6443"
)

// Cluster is a control plane.
type Cluster struct {
	authority *authority
	config    *rest.Config
	client    *kubernetes.Clientset

	mu         sync.Mutex // guards processes
	processes  map[string]*process
	background context.CancelFunc
	done       sync.WaitGroup
	addresses  atomic.Int64 // of pods, in use or before
	nodes      atomic.Int64
}

var shared struct {
	once    sync.Once
	cluster *Cluster
	err     error
}

// Start returns the control plane of the test program, which all tests share. It ends with [Main].
func Start(tb testing.TB) *Cluster {
	tb.Helper()
	if os.Getenv(envInside) == "" {
		tb.Fatal("TestMain must call cluster.Main")
	}

	shared.once.Do(func() { shared.cluster, shared.err = start() })
	require.NoError(tb, shared.err)
	return shared.cluster
}

func stopShared() {
	if shared.cluster != nil {
		shared.cluster.stop()
	}
}

// Config returns the configuration of a client that may do everything.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of a file with Config.
func (c *Cluster) Kubeconfig() string { return filepath.Join(pki, "admin.kubeconfig") }

// StopAPIServer ends the API server. It may be started again with StartAPIServer.
func (c *Cluster) StopAPIServer(tb testing.TB) {
	tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NoError(tb, c.processes["kube-apiserver"].stop(syscall.SIGKILL))
}

// StartAPIServer starts the API server, and returns when it is ready.
func (c *Cluster) StartAPIServer(tb testing.TB) {
	tb.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NoError(tb, c.startAPIServer())
}

// RestartAPIServer ends the API server and starts it again. Watches of former versions have expired
// then.
func (c *Cluster) RestartAPIServer(tb testing.TB) {
	tb.Helper()
	c.StopAPIServer(tb)
	c.StartAPIServer(tb)
}

// Pause suspends the API server until the returned function is called, or the test ends: it accepts
// connections and does not respond.
func (c *Cluster) Pause(tb testing.TB) (resume func()) {
	tb.Helper()
	signal := func(s syscall.Signal) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.processes["kube-apiserver"].cmd.Process.Signal(s)
	}
	require.NoError(tb, signal(syscall.SIGSTOP))
	resume = sync.OnceFunc(func() { _ = signal(syscall.SIGCONT) })
	tb.Cleanup(resume)
	return resume
}

// start starts a control plane.
func start() (c *Cluster, err error) {
	if err := os.MkdirAll(pki, 0o700); err != nil {
		return nil, err
	}

	c = &Cluster{processes: map[string]*process{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.logs())
			c.stop()
		}
	}()
	if c.authority, err = newAuthority(); err != nil {
		return c, err
	}

	if err := c.writeFiles(); err != nil {
		return c, err
	}

	if c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig()); err != nil {
		return c, err
	}

	c.config.QPS, c.config.Burst = 1000, 1000
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return c, err
	}

	if err := c.startProcess("etcd", "--data-dir", scratch+"/etcd", "--unsafe-no-fsync",
		"--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379",
		"--listen-peer-urls", "http://127.0.0.1:2380"); err != nil {
		return c, err
	}

	if err := c.startAPIServer(); err != nil {
		return c, err
	}

	if err := c.startControllers(); err != nil {
		return c, err
	}

	ctx, cancel := context.WithCancel(context.Background())
	c.background = cancel
	c.done.Go(func() { c.forwardServices(ctx) })
	c.done.Go(func() { c.provideVolumes(ctx) })
	return c, c.createClass(ctx)
}

// writeFiles writes the certificates and the configurations of the programs.
func (c *Cluster) writeFiles() error {
	a := c.authority
	config := &api.Config{
		CurrentContext: "cluster",
		Contexts:       map[string]*api.Context{"cluster": {Cluster: "cluster", AuthInfo: "admin"}},
		Clusters:       map[string]*api.Cluster{"cluster": {Server: serverURL, CertificateAuthorityData: a.pem()}},
	}
	cert, key, err := a.issue("admin", "system:masters")
	if err != nil {
		return err
	}

	config.AuthInfos = map[string]*api.AuthInfo{"admin": {ClientCertificateData: cert, ClientKeyData: key}}
	return errors.Join(
		os.WriteFile(pki+"/ca.crt", a.pem(), 0o600),
		a.write(pki, "server", "kube-apiserver", "", gateway, "10.96.0.1", "127.0.0.1", "kubernetes.default.svc", "kubernetes.default"),
		a.write(pki, "kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
		a.write(pki, "accounts", "accounts", ""),
		clientcmd.WriteToFile(*config, c.Kubeconfig()),
		os.WriteFile(pki+"/audit.yaml", []byte(auditPolicy), 0o600),
	)
}

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["admin", "system:apiserver"]
- level: Metadata
`

func (c *Cluster) startAPIServer() error {
	err := c.startProcess("kube-apiserver",
		"--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0", "--secure-port=6443", "--advertise-address="+gateway,
		"--client-ca-file="+pki+"/ca.crt", "--tls-cert-file="+pki+"/server.crt", "--tls-private-key-file="+pki+"/server.key",
		"--authorization-mode=RBAC", "--enable-admission-plugins=PodNodeSelector", "--service-cluster-ip-range="+services,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+pki+"/accounts.crt",
		"--service-account-signing-key-file="+pki+"/accounts.key", "--kubelet-certificate-authority="+pki+"/ca.crt",
		"--kubelet-client-certificate="+pki+"/kubelet-client.crt", "--kubelet-client-key="+pki+"/kubelet-client.key",
		"--kubelet-preferred-address-types=InternalIP", "--audit-policy-file="+pki+"/audit.yaml", "--audit-log-path="+auditLog,
		"--shutdown-delay-duration=0s", "--profiling=false")
	if err != nil {
		return err
	}

	return wait(func(ctx context.Context) error {
		return c.client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// controllers are those that a workload of the hub meets. There is none for nodes: a node of the
// tests is ready while it exists.
var controllers = []string{
	"deployment-controller", "replicaset-controller", "statefulset-controller", "endpointslice-controller", "disruption-controller",
	"namespace-controller", "garbage-collector-controller", "resourcequota-controller", "serviceaccount-controller",
	"root-ca-certificate-publisher-controller", "persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller",
	"persistentvolume-protection-controller",
}

// startControllers starts the programs that need the API server, and waits until they work.
func (c *Cluster) startControllers() error {
	err := errors.Join(
		c.startProcess("kube-controller-manager", "--kubeconfig="+c.Kubeconfig(), "--leader-elect=false", "--secure-port=0",
			"--controllers="+strings.Join(controllers, ","), "--root-ca-file="+pki+"/ca.crt",
			"--service-account-private-key-file="+pki+"/accounts.key", "--kube-api-qps=1000", "--kube-api-burst=1000",
			"--pvclaimbinder-sync-period=1s", "--resource-quota-sync-period=2s", "--concurrent-namespace-syncs=20"),
		c.startProcess("kube-scheduler", "--kubeconfig="+c.Kubeconfig(), "--leader-elect=false", "--secure-port=0"),
	)
	if err != nil {
		return err
	}

	return wait(func(ctx context.Context) error { return c.accountExists(ctx, "default") })
}

// startProcess starts a program of the control plane. c.mu is held, or c is not shared yet.
func (c *Cluster) startProcess(name string, args ...string) error {
	p, err := startProcess(name, args...)
	if err == nil {
		c.processes[name] = p
	}

	return err
}

// stop ends all processes.
func (c *Cluster) stop() {
	if c.background != nil {
		c.background()
	}

	c.done.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range []string{"kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"} {
		if p := c.processes[name]; p != nil {
			_ = p.stop(syscall.SIGKILL) // nothing of it is kept
		}
	}
}

// logs returns the ends of the logs of all processes.
func (c *Cluster) logs() error {
	var errs []error
	for name, p := range c.processes {
		errs = append(errs, fmt.Errorf("%s: %s", name, p.tail()))
	}

	return errors.Join(errs...)
}

// wait calls a function until it returns nil.
func wait(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return waitContext(ctx, f)
}

func waitContext(ctx context.Context, f func(ctx context.Context) error) error {
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := f(attempt)
		cancel()
		if err == nil {
			tick.Stop()
			return nil
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}
