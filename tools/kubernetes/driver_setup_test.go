package kubernetes_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"

	"github.com/seed93082962/agenthost/hub/deploy"
	"github.com/seed93082962/agenthost/hub/deploy/kubernetes"
	"github.com/seed93082962/agenthost/runtime/agent"
	"github.com/seed93082962/agenthost/tools/kubernetes/clustertest"
)

const (
	runtimeImage = "agenthost-runtime:test"
	machine      = "10.244.0.1" // is this process for pods
	patience     = time.Minute
	apiKey       = "the-key"
	key          = "default-helper"
)

// build returns the path of a command of the module.
func build(name string) (string, error) {
	dir := filepath.Join(os.TempDir(), "agenthost-kubernetes")
	path := filepath.Join(dir, name)
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", path, "./cmd/"+name)
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "GOWORK=") // go.work
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return path, nil
}

var (
	runtimeBinary = sync.OnceValues(func() (string, error) { return build("runtime") })
	hubBinary     = sync.OnceValues(func() (string, error) { return build("hub") })
)

// place is a namespace with a node.
type place struct {
	*clientset.Clientset
	t         *testing.T
	cluster   *clustertest.Cluster
	node      *clustertest.Node
	namespace string
}

func newPlace(t *testing.T, change ...func(*clustertest.NodeOptions)) place {
	t.Helper()
	path, err := runtimeBinary()
	require.NoError(t, err)
	c := clustertest.Start(t)
	client, err := clientset.NewForConfig(c.Config())
	require.NoError(t, err)
	p := place{Clientset: client, t: t, cluster: c, namespace: c.Namespace(t)}
	options := clustertest.NodeOptions{Namespace: p.namespace, Images: map[string]string{runtimeImage: path}}
	for _, f := range change {
		f(&options)
	}
	p.node = c.Node(t, options)
	p.explain(t)
	return p
}

// open returns a driver.
func (p place) open(t *testing.T, change ...func(*kubernetes.Config)) *kubernetes.Driver {
	t.Helper()
	cfg := kubernetes.Config{REST: p.cluster.Config(), Namespace: p.namespace, Image: runtimeImage, Grace: 4 * time.Second, Default: agent.Deployment{CPU: "100m", Memory: "256Mi"}}
	for _, f := range change {
		f(&cfg)
	}
	d, err := kubernetes.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// explain logs the pods of a test that has failed. It must be called after the node was started.
func (p place) explain(t *testing.T) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		apps, err := p.AppsV1().Deployments(p.namespace).List(context.Background(), meta.ListOptions{})
		require.NoError(t, err)
		for _, app := range apps.Items {
			t.Logf("%s %v %+v", app.Name, *app.Spec.Replicas, app.Status)
		}
		events, err := p.CoreV1().Events(p.namespace).List(context.Background(), meta.ListOptions{})
		require.NoError(t, err)
		for _, e := range events.Items {
			t.Log(e.InvolvedObject.Name, e.Reason, e.Message)
		}
		list, err := p.CoreV1().Pods(p.namespace).List(context.Background(), meta.ListOptions{})
		require.NoError(t, err)
		for _, pod := range list.Items {
			log, err := p.CoreV1().Pods(p.namespace).GetLogs(pod.Name, &core.PodLogOptions{}).DoRaw(context.Background())
			t.Logf("%s %+v %s %v", pod.Name, pod.Status, log, err)
		}
	})
}

// listen returns a listener that pods reach.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(machine, "0"))
	require.NoError(t, err)
	return l
}

// pods returns the pods of a revision, or of all revisions with "".
func (p place) pods(key, revision string) []core.Pod {
	p.t.Helper()
	list, err := p.CoreV1().Pods(p.namespace).List(p.t.Context(), meta.ListOptions{LabelSelector: "agenthost.dev/revision"})
	require.NoError(p.t, err)
	var found []core.Pod
	for _, pod := range list.Items {
		if pod.Annotations["agenthost.dev/key"] == key && (revision == "" || pod.Labels["agenthost.dev/revision"] == revision) {
			found = append(found, pod)
		}
	}
	return found
}

// kill ends the runtime of a revision as a crash does.
func (p place) kill(key string, revision int64) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		for _, pod := range p.pods(key, strconv.FormatInt(revision, 10)) {
			if pod.DeletionTimestamp == nil && p.node.Kill(pod.Name, "runtime") {
				return true
			}
		}
		return false
	}, patience, 20*time.Millisecond)
}

// ref is the deployment of most tests.
var ref = deploy.Ref{Key: key, UID: "first", Owner: "first"}

// request is that of the demo agent.
func request() deploy.Request {
	return deploy.Request{
		Key: key, AgentID: "helper",
		Config: agent.Agent{Model: "demo", Provider: agent.Provider{Protocol: agent.ProtocolDemo}},
		Env:    map[string]agent.Secret{deploy.EnvAPIKey: apiKey},
	}
}

// reach repeats a call until the runtime of a revision has the phase and a message with the text.
func reach(t *testing.T, d deploy.Driver, revision int64, phase deploy.Phase, text string, call func() error) (r deploy.Runtime) {
	t.Helper()
	end := time.Now().Add(patience)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for ; ; <-ticker.C {
		o, err := d.Observe(t.Context(), ref)
		if r = o.Runtime(revision); err == nil && r.Phase == phase && contains(r.Message, text) {
			return r
		}
		if time.Now().After(end) {
			require.FailNow(t, "not within a minute", "%s %q: %+v %v", phase, text, o, err)
		}
		if call != nil {
			require.NoError(t, call())
		}
	}
}
